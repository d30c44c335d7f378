"""The folders of VSE++ and SCAN: ``{train,dev,test}_caps.txt`` with ``{train,dev,test}_ims.npy``.

A line is a caption, and all images of a split have equally many lines in a row. The feature rows say how many. Where
there are fewer rows than captions, each image has a row. Where each caption has a row, the rows of an image are equal:
rows that all differ are images of one caption each. Equal rows of irregular numbers are refused. A split whose
rows do not say it has the number of train. ``val_caps.txt`` is another name of ``dev_caps.txt``. ``testall_caps.txt``,
if there, is the test split (COCO's 5,000 images, of which ``test`` has the first thousand).

References:
    [Faghri2018] Faghri et al., VSE++, https://github.com/fartashf/vsepp, data.py: PrecompDataset.
    [Lee2018] Lee et al., Stacked Cross Attention, arXiv:1803.08024: region features (rows, 36, 2048).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import Corpus, Image, caption_problem
from trainables.data.features import CHUNK_BYTES, open_features
from trainables.data.npy_files import release_pages
from trainables.data.text_files import read_lines
from trainables.errors import DataError
from trainables.files import remembered

FORMAT = "captions of precomputed features (train_caps.txt, dev_caps.txt, test_caps.txt)"
PUBLISHED = 5
"""Captions of an image in the published folders; of a folder that says nothing else there is no other number."""

_NAMES = {"train": ("train",), "val": ("dev", "val"), "test": ("testall", "test")}
"""Split -> the beginnings of its files' names."""


def find(folder: Path) -> list[Path]:
    """Return the caption files in a folder, or nothing."""
    if not (folder / "train_caps.txt").exists():
        return []
    return [there[0] for there in _files_of(folder).values() if there]


def read(files: Sequence[Path]) -> Corpus:
    """Read the caption files; an image's id is its split and number.

    Raises:
        DataError: If two files are of one split, or the rows of the images do not say how many captions an image has.
    """
    images: list[Image] = []
    problems: list[str] = []
    reading: list[str] = []
    of_train: int | None = None
    for split, file in _by_split(files).items():
        lines = read_lines(file)
        number = _captions_per_image(_features_beside(file), len(lines))
        # Where the rows of a split do not fit its lines, a missing line is a mistake of that line.
        per_image = number or of_train or PUBLISHED
        if split == "train":
            of_train = number
        if number == 1 or number not in (None, of_train):
            reading.append(f"{number} captions an image in {split}")
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
        for first in range(0, len(lines), per_image):
            captions = tuple(lines[first : first + per_image])
            images.append(Image(f"{file}: line {first + 1}", f"{split}-{first // per_image}", "", split, captions))
    notes = [f"nothing says how many captions an image has: {PUBLISHED}, as in the published folders"]
    return Corpus(str(files[0]), images, problems, [] if of_train else notes, reading)


def own_features(files: Sequence[Path]) -> Mapping[str, Mapping[str, Path]]:
    """Return the feature files by kind and split; ``DataError`` names missing files.

    The kind is ``regions`` if a feature row is a matrix, ``global`` if the row is a vector.
    """
    beside = {split: _features_beside(file) for split, file in _by_split(files).items()}
    if missing := [path for path in beside.values() if not path.exists()]:
        raise DataError([f"{path}: no such file: the features of the captions beside it" for path in missing])
    first = open_features(next(iter(beside.values())))
    return {"regions" if first.ndim == 3 else "global": beside}


def _features_beside(file: Path) -> Path:
    return file.with_name(file.name.replace("_caps.txt", "_ims.npy"))


def _files_of(folder: Path) -> dict[str, list[Path]]:
    """Return the files of captions of each split, the one that is read first."""
    named = {split: [folder / f"{name}_caps.txt" for name in names] for split, names in _NAMES.items()}
    return {split: [path for path in paths if path.exists()] for split, paths in named.items()}


def _by_split(files: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each split; ``DataError`` where another file says other things about the split."""
    there = {split: paths for split, paths in _files_of(files[0].parent).items() if paths}
    for split, (first, *others) in there.items():
        for other in others:
            if not set(read_lines(other)) <= set(read_lines(first)):
                raise DataError(
                    f"{other}: is of {split} like {first.name}, and has other captions; move one of the two away"
                )
    return {split: paths[0] for split, paths in there.items()}


def _captions_per_image(features: Path, captions: int) -> int | None:
    """Return how many captions each image has by its feature rows; ``None`` where these do not say it."""
    try:
        rows = len(open_features(features))
        if rows == captions:
            runs = remembered(features, _runs_of_rows)
        elif 0 < rows < captions and captions % rows == 0:
            return captions // rows
        else:
            return None
    except DataError:
        # Missing or damaged features are a problem of their own.
        return None
    shortest: int = runs["shortest"]
    if runs["irregular"] is not None:
        row, length = runs["irregular"]
        raise DataError(
            f"{features}: row {row}: {length} equal rows, where {shortest} are the fewest: the rows do not say how "
            "many captions an image has; keep one row an image"
        )
    return shortest


def _runs_of_rows(path: Path) -> dict[str, Any]:
    """Return the ``shortest`` run of equal rows, and as ``irregular`` the first that is no multiple, with its length.

    Two pictures in a row may have equal features, so that a run may be a multiple of the shortest.
    """
    array = open_features(path)
    at_once = max(2, CHUNK_BYTES // array[:1].nbytes)
    begins = [0]
    for start in range(0, len(array) - 1, at_once):
        block = np.ascontiguousarray(array[start : start + at_once + 1]).reshape(-1, array[0].size)
        differs = ~((block[1:] == block[:-1]) | (np.isnan(block[1:]) & np.isnan(block[:-1]))).all(axis=1)
        begins += (start + 1 + np.flatnonzero(differs)).tolist()
        release_pages(array)
    lengths = np.diff([*begins, len(array)])
    shortest = int(lengths.min())
    irregular = np.flatnonzero(lengths % shortest)
    first = None if not len(irregular) else [begins[irregular[0]], int(lengths[irregular[0]])]
    return {"shortest": shortest, "irregular": first}
