"""The feature files that commands make of a whole dataset: their places are checked first, then they are written."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import Corpus, check_corpus
from trainables.data.source import find_source
from trainables.errors import ConfigError, DataError
from trainables.files import make_writable, write_whole, writing_whole


def open_corpus(
    dataset: str, data_root: Path, out: Path | None, kinds: Sequence[str]
) -> tuple[Corpus, tuple[Path, ...]]:
    """Return a dataset's captions and splits, and the paths of its feature files of some kinds.

    Args:
        dataset: Name of a folder under ``data_root``, or a path.
        data_root: Where datasets lie.
        out: Folder of the feature files; ``None`` for the dataset's own folder.
        kinds: Kinds of features, such as ``global``.

    Raises:
        ConfigError: If the folder cannot be written, or a file exists already; the message names it.
        DataError: If the dataset is missing or has problems.
    """
    source = find_source(dataset, data_root)
    corpus = source.read()
    if problems := check_corpus(corpus):
        raise DataError(problems)
    targets = tuple((out or source.folder) / f"features_{kind}.npy" for kind in kinds)
    for target in targets:
        _check_target(target)
    return corpus, targets


def _check_target(target: Path) -> None:
    """Refuse a folder that cannot be written, or a file that exists already."""
    try:
        make_writable(target.parent)
    except OSError as error:
        raise ConfigError(
            f"{target.parent}: cannot be written: {error.strerror}; name another folder with --out"
        ) from None
    if target.exists():
        raise ConfigError(f"{target}: is there already; remove it, or name another folder with --out")


def write_features(target: Path, features: np.ndarray, about: dict[str, Any]) -> None:
    """Write features as float16, after the file that describes their origin, so that no features lack an origin.

    Raises:
        DataError: If a feature is not finite as float16.
    """
    with np.errstate(over="ignore"):
        rows = features.astype(np.float16)
    if not np.isfinite(rows).all():
        raise DataError(f"{target}: would hold NaN, infinity, or numbers beyond those of float16")
    told = {**about, "shape": list(rows.shape), "dtype": "float16"}
    write_whole(target.with_suffix(".json"), json.dumps(told, indent=2) + "\n")
    with writing_whole(target) as file:
        np.save(file, rows, allow_pickle=False)
