"""Flickr8k for the benchmarks: the real one where it is, else numbers of the same shape."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.trainables.tiny import split_of
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import Dataset, Split, load_dataset
from trainables.data.tokenizers import END, SPECIAL, START, Vocabulary
from trainables.trial import Trial

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
"""Where a checkout may have it."""

NAME = "flickr8k"
IMAGES = {"train": 6000, "val": 1000, "test": 1000}
FEATURES = {"global": (1024,), "regions": (16, 256)}
"""Numbers of an image, by kind."""

WORDS = 2500
LENGTH = (10.9, 3.8)
"""Mean and standard deviation of the words of a caption of Flickr8k."""


def add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-root", type=Path, help="holds flickr8k; generated numbers of its shape otherwise")
    parser.add_argument("--images", type=int, help="generate so many instead")


def load_flickr8k(data_root: Path | None, images: int | None = None, kind: str = "global") -> Dataset:
    """Return Flickr8k of a data root, by default beside the checkout, or generated numbers where it holds none.

    With ``images`` so many are generated for training, and a sixth of it for each of the others, whatever there is.
    """
    root = SHARED if data_root is None else data_root
    if images is None and (root / NAME).is_dir():
        return load_dataset(NAME, root, features=kind)
    sizes = IMAGES if images is None else {name: max(2, images * size // 6000) for name, size in IMAGES.items()}
    return generate(sizes, kind)


def generate(images: dict[str, int], kind: str = "global") -> Dataset:
    """Return a dataset of random unit features and random captions, frequent words first."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((sum(images.values()), *FEATURES[kind])).astype(np.float16)
    features /= np.linalg.norm(features.astype(np.float32), axis=-1, keepdims=True).astype(np.float16)
    splits, first = {}, 0
    for name, size in images.items():
        splits[name] = make_split(name, features, np.arange(first, first + size), rng)
        first += size
    words = Vocabulary((*SPECIAL, *(f"word{index}" for index in range(WORDS))))
    return Dataset(name="generated", digest="generated", vocabulary=words, splits=splits)


def make_split(name: str, features: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> Split:
    frequency = 1 / np.arange(1, WORDS + 1)
    lengths = np.clip(rng.normal(*LENGTH, 5 * len(rows)), 2, 36).astype(int)
    ids = len(SPECIAL) + rng.choice(WORDS, size=lengths.sum(), p=frequency / frequency.sum())
    captions = [[START, *part, END] for part in np.split(ids, lengths.cumsum()[:-1])]
    return split_of(name, features, rows, captions, len(captions) // len(rows))


def begin_trial(
    case: str, data: Dataset, device: str | torch.device, beside: Trial | None = None, **training: Any
) -> Trial:
    """Return a trial of ``MODEL:SIZE:LOSS``, SIZE the dimensions of the embedding, that has begun its first epoch."""
    model, size, loss = case.split(":")
    settings = TrainingConfig(embedding_size=int(size), **training)
    config = TrialConfig(dataset=NAME, model=model, loss=loss, training=settings)
    trial = Trial(config, data, torch.device(device), beside=beside)
    trial.begin_epoch()
    return trial
