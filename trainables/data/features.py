"""Feature files: memory-mapped ``.npy`` arrays of one row an image, or one row a caption.

A file is read once, front to back, for its digest and for values that are no numbers; after that it is known by its
size and times (``trainables.data.cache``) and only mapped. Nothing is loaded that could run code.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import Image
from trainables.data.text_files import read_json, read_lines
from trainables.errors import DataError

NAMED_ROWS = 5
"""So many rows are named of those that hold NaN or infinity."""

_CHUNK_BYTES = 16 << 20
_NDIM = {"global": 2, "regions": 3}


def open_features(path: Path) -> np.ndarray:
    """Map a feature file of shape (rows, D) or (rows, R, D), float16 or float32; ``DataError`` if it is none."""
    try:
        with path.open("rb") as file:
            dtype = _read_dtype(path, file)
        if dtype.hasobject:
            raise DataError(
                f"{path}: an .npy that needs pickle is refused, because loading it can run code; "
                "save it again as an array of float16 or float32"
            )
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as an .npy array: {error}; write or fetch it again") from error
    if array.dtype not in (np.float16, np.float32):
        raise DataError(f"{path}: features must be float16 or float32, got {array.dtype}; convert them with .astype")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise DataError(f"{path}: features must have shape (rows, D) or (rows, R, D), got {array.shape}")
    return array


def inspect_features(path: Path) -> dict[str, Any]:
    """Read a feature file once.

    Returns:
        ``digest``: SHA-256 of dtype, shape and values; ``shape``; ``dtype``; ``bad_rows``: how many rows hold NaN or
        infinity; ``first_bad_rows``: the first of them.
    """
    array = open_features(path)
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    rows_at_once = max(1, _CHUNK_BYTES // (array.itemsize * array[0].size))
    bad: list[int] = []
    for start in range(0, len(array), rows_at_once):
        block = np.ascontiguousarray(array[start : start + rows_at_once])
        digest.update(block.data)
        # Most blocks are good, and a sum is finite only if all its parts are (float64 cannot overflow here).
        if not np.isfinite(block.sum(dtype=np.float64)):
            finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
            bad += (start + np.flatnonzero(~finite)).tolist()
    return {
        "digest": digest.hexdigest(),
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "bad_rows": len(bad),
        "first_bad_rows": bad[:NAMED_ROWS],
    }


def check_features(path: Path, inspection: dict[str, Any], images: Sequence[Image], kind: str) -> list[str]:
    """Return every problem of a feature file as the features of some images, in row order."""
    problems = []
    shape, rows = inspection["shape"], inspection["shape"][0]
    captions = sum(len(image.captions) for image in images)
    if len(shape) != _NDIM.get(kind, len(shape)):
        wanted = "(rows, D)" if kind == "global" else "(rows, R, D)"
        problems.append(f"{path}: {kind} features must have shape {wanted}, got {tuple(shape)}")
    if rows not in (len(images), captions):
        problems.append(
            f"{path}: {rows} feature rows for {len(images)} images with {captions} captions; "
            "there must be one row an image, or one a caption: these are the features of another dataset or split"
        )
    if inspection["bad_rows"]:
        named = ", ".join(_name_row(row, images, rows) for row in inspection["first_bad_rows"])
        more = ", ..." if inspection["bad_rows"] > NAMED_ROWS else ""
        problems.append(
            f"{path}: {inspection['bad_rows']} rows hold NaN or infinity: {named}{more}; extract these features again"
        )
    return problems + _check_origin(path, images)


def row_of_images(rows: int, images: Sequence[Image]) -> np.ndarray:
    """Return the feature row of each image, shape (I,), int64: its place, or its first caption's where rows repeat."""
    if rows == len(images):
        return np.arange(rows, dtype=np.int64)
    counts = [len(image.captions) for image in images]
    return np.cumsum([0, *counts[:-1]], dtype=np.int64)


def images_digest(images: Sequence[Image]) -> str:
    """Return the SHA-256 over the ids of some images in row order: whose features a file holds, and in which order."""
    return hashlib.sha256("\n".join(image.id for image in images).encode()).hexdigest()


def _read_dtype(path: Path, file: Any) -> np.dtype:
    """Return the dtype in an .npy header, without touching the values; ``ValueError`` if there is none."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)[2]


def _name_row(row: int, images: Sequence[Image], rows: int) -> str:
    """Name a row with its image, where the rows are as many as the images."""
    return f"row {row} ({images[row].filename or images[row].id})" if rows == len(images) else f"row {row}"


def _check_origin(path: Path, images: Sequence[Image]) -> list[str]:
    """Compare the images that a file beside the features says they are of: ``NAME.json`` or ``NAME_ids.txt``."""
    sidecar, listing = sidecars(path)
    try:
        if sidecar.exists():
            told = read_json(sidecar).get("images_digest")
            if told != images_digest(images):
                return [f"{path}: features of another dataset: {sidecar.name} has images_digest {told!r:.20}, not ours"]
        if listing.exists():
            return _check_listing(path, read_lines(listing), images)
    except DataError as error:
        return error.problems
    return []


def sidecars(path: Path) -> tuple[Path, Path]:
    """Return the paths of the two files that may say whose features these are."""
    return path.with_suffix(".json"), path.with_name(f"{path.stem}_ids.txt")


def _check_listing(path: Path, lines: Sequence[str], images: Sequence[Image]) -> list[str]:
    """Compare a list of image ids or file names, one a row, with the images."""
    place = f"{path}: features of another dataset: {path.stem}_ids.txt"
    if len(lines) != len(images):
        return [f"{place} lists {len(lines)} images, the dataset has {len(images)}"]
    for number, (line, image) in enumerate(zip(lines, images, strict=True), 1):
        if line.strip() not in (image.id, image.filename):
            return [f"{place}: line {number} is {line!r}, the dataset has {image.filename or image.id!r} there"]
    return []
