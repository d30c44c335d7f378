"""The folders of VSE++ and SCAN: ``{train,dev,test}_caps.txt`` with ``{train,dev,test}_ims.npy``.

A line is a caption, and all images have equally many lines in a row. Where each image has one feature row, the number
of rows gives the number of lines. Where each caption has a row, it is the number of equal rows at the beginning. Where
neither gives a number, it is five. ``testall_caps.txt``, if there, is the test split (COCO's 5,000 images, of which
``test`` has the first thousand).

References:
    [Faghri2018] Faghri et al., VSE++, https://github.com/fartashf/vsepp, data.py: PrecompDataset.
    [Lee2018] Lee et al., Stacked Cross Attention, arXiv:1803.08024: region features (rows, 36, 2048).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem
from trainables.data.features import open_features
from trainables.data.text_files import read_lines
from trainables.errors import DataError

FORMAT = "captions of precomputed features (train_caps.txt, dev_caps.txt, test_caps.txt)"
CAPTIONS_PER_IMAGE = 5
"""Captions of an image where the features do not give their number, as in the published folders."""


def find(folder: Path) -> list[Path]:
    """Return the caption files in a folder, or nothing."""
    if not (folder / "train_caps.txt").exists():
        return []
    test = "testall_caps.txt" if (folder / "testall_caps.txt").exists() else "test_caps.txt"
    return [path for path in (folder / "train_caps.txt", folder / "dev_caps.txt", folder / test) if path.exists()]


def read(files: Sequence[Path]) -> Corpus:
    """Read the caption files; an image's id is its split and number."""
    images: list[Image] = []
    problems: list[str] = []
    # All splits have as many as the first, train, so that a missing line in another is a mistake of that line.
    per_image = _captions_per_image(_features_beside(files[0]), len(read_lines(files[0])))
    for file in files:
        lines = read_lines(file)
        if len(lines) % per_image:
            problems.append(
                f"{file}: line {len(lines)}: {len(lines)} captions, which is no multiple of {per_image}: "
                "the last image has captions missing, or another line has two"
            )
        problems += [
            f"{file}: line {number}: {wrong}"
            for number, line in enumerate(lines, 1)
            if (wrong := caption_problem(line))
        ]
        split = _split(file)
        for first in range(0, len(lines), per_image):
            captions = tuple(lines[first : first + per_image])
            images.append(Image(f"{file}: line {first + 1}", f"{split}-{first // per_image}", "", split, captions))
    return Corpus(str(files[0]), images, problems)


def own_features(files: Sequence[Path]) -> Mapping[str, Mapping[str, Path]]:
    """Return the feature files by kind and split; ``DataError`` names missing files.

    The kind is ``regions`` if a feature row is a matrix, ``global`` if the row is a vector.
    """
    beside = {_split(file): _features_beside(file) for file in files}
    if missing := [path for path in beside.values() if not path.exists()]:
        raise DataError([f"{path}: no such file: the features of the captions beside it" for path in missing])
    first = open_features(next(iter(beside.values())))
    return {"regions" if first.ndim == 3 else "global": beside}


def _features_beside(file: Path) -> Path:
    return file.with_name(file.name.replace("_caps.txt", "_ims.npy"))


def _captions_per_image(features: Path, captions: int) -> int:
    """Return how many captions each image has: those of a feature row, or the equal rows at the beginning."""
    try:
        rows = open_features(features)
    except DataError:
        # Missing or damaged features are a problem of their own.
        return CAPTIONS_PER_IMAGE
    count = len(rows)
    if count == captions:
        different = (place for place in range(1, count) if not np.array_equal(rows[place], rows[0], equal_nan=True))
        repeats = next(different, count)
        return repeats if repeats > 1 else CAPTIONS_PER_IMAGE
    return captions // count if 0 < count < captions and captions % count == 0 else CAPTIONS_PER_IMAGE


def _split(file: Path) -> str:
    return SPLIT_ALIASES[file.name.removesuffix("_caps.txt").replace("testall", "test")]
