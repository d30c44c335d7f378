"""Describes a dataset in numbers, with all its problems."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config import TEXT
from trainables.data.corpus import SPLITS, Corpus
from trainables.data.dataset import (
    Dataset,
    Split,
    dataset_digest,
    files_outside,
    find_problems,
    load_dataset,
    members_of,
    tokenizer_of,
)
from trainables.data.features import inspect_features, open_features
from trainables.data.inputs import about_lengths, describe_inputs, found_inputs, input_numbers
from trainables.data.npy_files import read_rows
from trainables.data.pictures import check_images, find_images
from trainables.data.repeats import group_files, repeat_notes, repeat_warnings
from trainables.data.source import Source, find_source
from trainables.data.tokenizers import LABELS, REASONS, THRESHOLD, UNKNOWN, Tokenizer, VocabularyName
from trainables.errors import DataError
from trainables.files import remembered
from trainables.judgement_files import describe_judgements
from trainables.ranks import chance_rsum

UNKNOWN_SHARE = 1 / 3
"""Share of unknown tokens from which on a dataset is doubtful."""


MEASURED = ("caption_lengths", "tokens_per_image", "unknown_tokens", "chance_rsum")
"""Numbers of a split that its tokens give."""


@dataclass
class Description:
    """A dataset in numbers.

    Of a split, ``captions_per_image`` are the fewest and the most; ``caption_lengths`` are ``min``, ``median``,
    ``mean`` and ``max`` in tokens, without start and end. ``unknown_tokens`` is a share in [0, 1], and ``chance_rsum``
    is that of a random ranking, in [0, 600]. The numbers of ``MEASURED`` are none if the dataset has problems.

    ``inputs`` maps a further input to what ``data.inputs.describe_inputs`` returns. ``digest`` maps a kind of features
    to the digest of captions, splits and features, and ``none`` to that of captions alone. ``features`` maps kind and
    split to ``file``, ``shape``, ``dtype`` and ``about_lengths``. ``judgements`` maps a split to ``JudgedSplit.counts``
    of each source. ``warnings`` are signs that a setting does not fit the data, and ``notes`` facts that are no
    problems. Vocabulary and tokenizer are none if the captions cannot be read. ``ceilings`` maps a split to the most
    that ``i2t_r1`` and ``t2i_r1`` can be, in percent, because images or captions are there several times. ``zero_shot``
    is the rsum on val of the features of both sides as they are; it is none where their dimensions differ.
    """

    name: str
    folder: str
    format: str
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    digest: dict[str, str] = field(default_factory=dict)
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)
    vocabulary: int | None = None
    tokenizer: str | None = None
    tokenizer_reason: str = ""
    features: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    judgements: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ceilings: dict[str, dict[str, float]] = field(default_factory=dict)
    zero_shot: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def describe_dataset(
    name: str,
    data_root: Path,
    *,
    vocabulary: VocabularyName = "train",
    tokenizer: str | None = None,
    decode_images: bool = False,
) -> Description:
    """Read a dataset and all its features, and find every problem.

    ``decode_images`` decodes every image file too, which takes some milliseconds an image. For the other arguments see
    ``load_dataset``.

    Raises:
        DataError: If there is no such dataset; an existing dataset with problems is described.
    """
    source = find_source(name, data_root)
    description = Description(source.name, str(source.folder), source.format.FORMAT)
    files: dict[str, Mapping[str, Path]] = {}
    try:
        files = {kind: source.feature_files(kind) for kind in source.feature_kinds()}
        description.problems += files_outside(
            source, [path for by_split in files.values() for path in by_split.values()]
        )
        if description.problems:
            return description
        corpus = source.read()
        cut = tokenizer_of(source, tokenizer)
        description.problems += find_problems(source, corpus, files, found_inputs(source.folder))
    except DataError as error:
        description.problems += error.problems
        return description
    description.tokenizer = cut.title
    description.tokenizer_reason = "as asked for" if tokenizer else f"inferred: {REASONS[cut]}"
    description.notes += corpus.notes
    image_files = find_images(source.folder, (image.filename for image in corpus.images))
    description.problems += check_images(corpus, image_files, decode=decode_images)
    _describe_features(description, source, files, cut)
    of_images = next((kind for kind in files if kind != TEXT), None)
    data = None
    if not description.problems:
        _describe_inputs(description, source, corpus, cut)
    if not description.problems:
        with_text = of_images is not None and TEXT in files
        data = load_dataset(
            name, data_root, vocabulary=vocabulary, tokenizer=tokenizer, features=of_images, text=with_text
        )
    description.vocabulary = len(data.vocabulary) if data else None
    description.splits |= _describe_splits(corpus, image_files, data)
    description.warnings += _doubts_about(description)
    if data is not None:
        _describe_repeats(description, source, data, has_features=of_images is not None)
        description.zero_shot = _zero_shot(data.splits["val"])
        _describe_judgements(description, name, data_root, data, corpus)
    return description


def _describe_inputs(description: Description, source: Source, corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Add the further inputs; captions without a sentence in a file of sentences are problems."""
    input_numbers(corpus, source.folder, found_inputs(source.folder), tokenizer, description.problems)
    description.inputs |= describe_inputs(source.folder)


def zero_shot_rsum(images: np.ndarray, captions: np.ndarray, image_of_caption: np.ndarray) -> float | None:
    """Return the rsum of the cosines of features as they are, in [0, 600].

    Args:
        images: Shape (I, ...), floating, finite.
        captions: Shape (C, D).
        image_of_caption: Shape (C,), integers in [0, I).

    Returns:
        ``None`` where the two have different dimensions.
    """
    if images.ndim != 2 or images.shape[1] != captions.shape[1]:
        return None
    # A description of a dataset without such features loads no torch.
    from torch import from_numpy
    from torch.nn.functional import normalize

    from trainables.metrics import embedding_metrics

    first, second = (normalize(from_numpy(side.astype(np.float32)), dim=1) for side in (images, captions))
    return round(embedding_metrics(first, second, from_numpy(np.array(image_of_caption)))["rsum"], 2)


def _zero_shot(split: Split) -> float | None:
    if split.caption_features is None or split.caption_rows is None or split.labels is not None:
        return None
    images, captions = (
        read_rows(array, np.asarray(rows))
        for array, rows in ((split.features, split.image_rows), (split.caption_features, split.caption_rows))
    )
    return zero_shot_rsum(images, captions, split.image_of_caption)


def _describe_repeats(description: Description, source: Source, data: Dataset, *, has_features: bool) -> None:
    """Add which images and captions are there several times, and what that does to R@1."""
    if source.has_one_modality or source.has_label_sets:
        return
    members = {name: members_of(split) for name, split in data.splits.items()}
    what = "features" if has_features else "files"
    if not has_features:
        names = [name for split in data.splits.values() for name in split.filenames]
        places = find_images(source.folder, names)
        groups = group_files([Path(places[name]) if name in places else None for name in names])
        first = 0
        for split, held in members.items():
            images = len(held.image_groups)
            members[split] = replace(held, image_groups=groups[first : first + images])
            first += images
    description.ceilings |= {
        name: {metric: round(value, 2) for metric, value in of_split.ceilings().items()}
        for name, of_split in members.items()
        if name != "train"
    }
    description.warnings += repeat_warnings(members, what)
    description.notes += repeat_notes(members, what)


def _describe_judgements(description: Description, name: str, data_root: Path, data: Dataset, corpus: Corpus) -> None:
    """Add the judgements; damaged files are problems."""
    try:
        counts, notes = describe_judgements(name, data_root, data.splits, corpus)
    except DataError as error:
        description.problems += error.problems
        return
    description.judgements |= counts
    description.notes += notes


def _doubts_about(description: Description) -> Iterator[str]:
    """Yield signs that the tokenizer does not fit the captions."""
    if description.tokenizer == LABELS.name:
        for name, split in description.splits.items():
            if split["unknown_tokens"]:
                share = f"{100 * split['unknown_tokens']:.0f} % of the labels of {name}"
                yield f"{share} are of no train image, so that no training can find them"
        return
    measured = [split for split in description.splits.values() if split["caption_lengths"] is not None]
    if any(split["caption_lengths"]["median"] <= 1 for split in measured):
        yield (
            f"half of the captions are a single token to the tokenizer {description.tokenizer}; take another, e.g. "
            "--tokenizer characters for a script without spaces"
        )
    unknown = max((split["unknown_tokens"] for split in measured), default=0.0)
    if unknown >= UNKNOWN_SHARE:
        yield (
            f"{100 * unknown:.0f} % of the tokens are unknown, because they were seen fewer than {THRESHOLD} times in "
            f"training; take another tokenizer than {description.tokenizer}"
        )


def _describe_features(
    description: Description, source: Source, files: Mapping[str, Mapping[str, Path]], tokenizer: Tokenizer
) -> None:
    """Add shapes and digests of features; files that can't be read are already among the problems."""
    for kind, by_split in {**files, "none": {}}.items():
        try:
            inspected = {split: remembered(path, inspect_features) for split, path in by_split.items()}
            if kind != TEXT:
                description.digest[kind] = dataset_digest(source, by_split, {}, tokenizer)
                if kind != "none" and TEXT in files:
                    description.digest[f"{kind} and {TEXT}"] = dataset_digest(source, by_split, files[TEXT], tokenizer)
        except DataError:
            continue
        # Lengths that do not fit are a problem already.
        with_lengths = kind == "regions" and not description.problems
        if by_split:
            description.features[kind] = {
                split: {
                    "file": by_split[split].name,
                    "shape": inspection["shape"],
                    "dtype": inspection["dtype"],
                    **(about_lengths(by_split[split], open_features(by_split[split])) if with_lengths else {}),
                }
                for split, inspection in inspected.items()
            }


def _describe_splits(corpus: Corpus, image_files: Collection[str], data: Dataset | None) -> dict[str, dict[str, Any]]:
    described = {}
    for name in SPLITS:
        images = corpus.split(name)
        counts = [len(image.captions) for image in images] or [0]
        described[name] = {
            "images": len(images),
            "captions": sum(counts),
            "captions_per_image": (min(counts), max(counts)),
            "image_files": sum(image.filename in image_files for image in images),
            **(_measure_captions(data.splits[name]) if data else dict.fromkeys(MEASURED)),
        }
    return described


def _measure_captions(split: Split) -> dict[str, Any]:
    lengths = np.diff(split.offsets) - 2
    measures = {"min": lengths.min(), "median": np.median(lengths), "mean": lengths.mean(), "max": lengths.max()}
    return {
        "caption_lengths": {name: round(float(value), 2) for name, value in measures.items()},
        "tokens_per_image": round(float(lengths.sum() / len(split.image_rows)), 2),
        "unknown_tokens": round(float((split.tokens == UNKNOWN).sum() / max(lengths.sum(), 1)), 5),
        "chance_rsum": round(chance_rsum(split.image_of_caption, split.labels, split.caption_labels), 2),
    }
