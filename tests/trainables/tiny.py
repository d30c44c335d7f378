"""A dataset small enough to train on in a second: each image shows a few words, each caption names some of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import Dataset, Split
from trainables.data.inputs import ImageColumn
from trainables.data.text_files import Strings
from trainables.data.tokenizers import END, SPECIAL, START, Vocabulary
from trainables.loss_parameters import LOSS_TABLE, META_FRACTION

WORDS = 24

PLAIN_LOSSES = tuple(name for name, entry in LOSS_TABLE.items() if META_FRACTION not in entry.parameters)
"""The losses without a meta-step, with which every model trains."""


def tiny_dataset(
    images: int = 60, captions_per_image: int | tuple[int, ...] = 5, *, digest: str = "tiny", seed: int = 0
) -> Dataset:
    """Make train, val and test splits of ``images``, a third and a third of it, with global features (rows, WORDS).

    Several numbers of captions are those of the first images, and again of the next.
    """
    vocabulary = Vocabulary((*SPECIAL, *(f"word{index}" for index in range(WORDS))))
    rng = np.random.default_rng(seed)
    sizes = {"train": images, "val": images // 3, "test": images // 3}
    shown = [rng.choice(WORDS, size=4, replace=False) for _ in range(sum(sizes.values()))]
    features = np.zeros((len(shown), WORDS), dtype=np.float16)
    for row, words in enumerate(shown):
        features[row, words] = 0.5
    splits, first = {}, 0
    for name, size in sizes.items():
        rows = np.arange(first, first + size)
        counts = np.resize(captions_per_image, size)
        splits[name] = make_split(name, features, rows, [shown[row] for row in rows], counts, rng)
        first += size
    return Dataset(name="tiny", digest=digest, vocabulary=vocabulary, splits=splits)


def suited(data: Dataset, config: TrialConfig, regions: int = 3) -> Dataset:
    """Return the dataset with the features that a trial reads.

    A region shows part of an image's, a little of all; a caption's features say which words stand in it.
    """
    if config.reads_text_features:
        return replace(data, splits={name: _with_bags(split) for name, split in data.splits.items()})
    data = replace(
        data, splits={name: _with_inputs(part, config.inputs, regions) for name, part in data.splits.items()}
    )
    if config.features in ("global", "none"):
        return data
    features = data.splits["train"].features
    parts = np.arange(features.shape[1]) % regions == np.arange(regions)[:, None]
    shown = (features[:, None] * parts + 0.1).astype(np.float16)
    return replace(data, splits={name: replace(split, features=shown) for name, split in data.splits.items()})


def _with_inputs(split: Split, names: tuple[str, ...], regions: int) -> Split:
    """Return a split with random inputs: boxes, experts of which some are missing, chains of words, and role graphs."""
    rng, rows = np.random.default_rng(1), len(split.features)
    columns, tokens, captions = {}, {}, {}
    if "boxes" in names:
        boxes = np.sort(rng.random((rows, regions, 2, 2)), axis=2).reshape(rows, regions, 4).astype(np.float32)
        columns["boxes"] = ImageColumn(boxes, split.image_rows)
    if "experts" in names:
        words = split.features[:, None].astype(np.float32)
        columns["experts.words"] = ImageColumn(words[:, 0], split.image_rows, np.ones(rows, np.int64))
        lengths = rng.integers(0, 3, rows)
        sets = np.repeat(words, 2, axis=1) * (np.arange(2) < lengths[:, None])[..., None]
        columns["experts.sets"] = ImageColumn(sets, split.image_rows, lengths)
    places = np.concatenate([np.arange(length) for length in np.diff(split.offsets)])
    if "parses" in names:
        tokens["heads"] = np.maximum(places - 1, 0).astype(np.int16)
    if "role_graphs" in names:
        tokens["phrases"] = np.where(places == 1, 1, np.where(places == 2, 1 << 4, 0)).astype(np.int16)
        count = len(split.image_of_caption)
        captions["roles"] = np.tile(np.array([0, -1, -1, -1, 2, -1, -1, -1, -1, -1], np.int16), (count, 1))
        captions["links"] = np.tile(np.array([1, 0, 0, 0], np.int16), (count, 1))
    return replace(split, columns=columns, token_numbers=tokens, caption_numbers=captions)


def _with_bags(split: Split) -> Split:
    captions = len(split.image_of_caption)
    bags = np.zeros((captions, len(SPECIAL) + WORDS), dtype=np.float16)
    bags[np.repeat(np.arange(captions), np.diff(split.offsets)), split.tokens] = 0.5
    # Rows in another order than the captions, as where the splits of a file are mixed.
    rows = np.arange(captions)[::-1].copy()
    return replace(split, caption_features=bags[rows][:, len(SPECIAL) :], caption_rows=rows)


def make_split(
    name: str,
    features: np.ndarray,
    rows: np.ndarray,
    shown: list[np.ndarray],
    counts: np.ndarray,
    rng: np.random.Generator,
) -> Split:
    captions = [
        [START, *(len(SPECIAL) + rng.permutation(words)[: rng.integers(2, 5)]), END]
        for words, count in zip(shown, counts, strict=True)
        for _ in range(count)
    ]
    return split_of(name, features, rows, captions, counts)


def split_of(
    name: str, features: np.ndarray, rows: np.ndarray, captions: list[list[int]], counts: np.ndarray | int
) -> Split:
    """Return a split of images with their captions, whose number is that of each image or of all."""
    return Split(
        name=name,
        features=features,
        image_rows=rows.astype(np.int64),
        image_ids=Strings.pack(f"image{row}" for row in rows),
        filenames=Strings.pack(f"image{row}.jpg" for row in rows),
        tokens=np.concatenate(captions).astype(np.int32),
        offsets=np.cumsum([0, *map(len, captions)]).astype(np.int64),
        image_of_caption=np.repeat(np.arange(len(rows)), counts).astype(np.int64),
        captions=Strings.pack(" ".join(map(str, words)) for words in captions),
    )


def tiny_config(*, loss: str = "nt_xent", seed: int = 0, **training: Any) -> TrialConfig:
    """Make a config that learns the tiny dataset in a few epochs."""
    settings = {"epochs": 3, "batch_size": 16, "learning_rate": 5e-3, "embedding_size": 32, "word_size": 16}
    return TrialConfig(dataset="tiny", loss=loss, seed=seed, training=TrainingConfig(**{**settings, **training}))
