"""Feature files: memory-mapped ``.npy`` arrays of one row an image, or one row a caption.

A file is read once as a whole, for its digest and to find NaN and infinity. Afterwards the file is recognised by its
size and times (``trainables.files``) and only mapped. Loading runs no code.

Beside ``features_KIND.npy`` may lie ``augmented_KIND.npy``: the features of N random crops of each row, its views.

Features of captions lie in ``features_text.npy``, one row a caption. Rows come in the order of the images, and of each
image's captions: the order in which a dataset lists them. Where the dataset is MS-COCO, whose val and test keep five
captions of each image, the other captions have no rows. ``features_text.json`` may identify the captions of the
features (``captions_digest``).
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import SPLITS, Corpus, Image
from trainables.data.npy_files import map_array, release_pages
from trainables.data.text_files import read_json, read_lines
from trainables.errors import DataError
from trainables.files import remembered

NAMED_ROWS = 5
"""Rows with NaN or infinity that are named in a message."""

VIEWS = "augmented_"
"""Beginning of the names of files of views."""

CHUNK_BYTES = 16 << 20
"""Bytes of a feature file that are compared or added up at a time."""

_NDIM = {"global": 2, "regions": 3}


def open_features(path: Path) -> np.ndarray:
    """Map a feature file of shape (rows, D) or (rows, R, D), float16 or float32; ``DataError`` for other files."""
    return _of_dimensions(path, (2, 3), "features must have shape (rows, D) or (rows, R, D)")


def open_views(path: Path) -> np.ndarray:
    """Map a file of views, (rows, N, D) or (rows, N, R, D), float16 or float32; ``DataError`` for other files."""
    return _of_dimensions(path, (3, 4), "views must have shape (rows, N, D) or (rows, N, R, D)")


def _of_dimensions(path: Path, allowed: tuple[int, int], rule: str) -> np.ndarray:
    array = map_array(path)
    if array.ndim not in allowed or 0 in array.shape:
        raise DataError(f"{path}: {rule}, got {array.shape}")
    return array


def view_files(features: Iterable[Path]) -> list[Path]:
    """Return the files of views beside some feature files, where there are any."""
    named = [path for path in dict.fromkeys(features) if path.name.startswith("features_")]
    beside = [path.with_name(path.name.replace("features_", VIEWS, 1)) for path in named]
    return [path for path in beside if path.exists()]


def inspect_features(path: Path) -> dict[str, Any]:
    """Read a file of features, or of views, front to back.

    Returns:
        ``digest``: SHA-256 of dtype, shape and values; ``shape``; ``dtype``; ``bad_rows``: how many rows hold NaN or
        infinity; ``first_bad_rows``: the first of them.
    """
    array = open_views(path) if path.name.startswith(VIEWS) else open_features(path)
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    rows_at_once = max(1, CHUNK_BYTES // (array.itemsize * array[0].size))
    bad: list[int] = []
    for start in range(0, len(array), rows_at_once):
        block = np.ascontiguousarray(array[start : start + rows_at_once])
        digest.update(block.data)
        # Most blocks are good, and a sum is finite only if all its parts are (float64 cannot overflow here).
        if not np.isfinite(block.sum(dtype=np.float64)):
            finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
            bad += (start + np.flatnonzero(~finite)).tolist()
        release_pages(array)
    return {
        "digest": digest.hexdigest(),
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "bad_rows": len(bad),
        "first_bad_rows": bad[:NAMED_ROWS],
    }


def check_features(path: Path, inspection: dict[str, Any], images: Sequence[Image], kind: str) -> list[str]:
    """Return what keeps a feature file from being the features of some images, in row order."""
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
    elif rows != len(images) and (image := _image_of_unequal_rows(path, images)) is not None:
        problems.append(
            f"{path}: has one row a caption, and the rows of {image.filename or image.id!r} ({image.place}) differ: "
            "these are features of several images, or of the captions"
        )
    return problems + _problems_of(_check_origin, path, images)


ROUNDING = 0.02
"""Most distance of two feature rows of one image, as a share of their norm: an image that was encoded in two batches of
float16 has not quite equal rows."""


def _image_of_unequal_rows(path: Path, images: Sequence[Image]) -> Image | None:
    """Return the first image whose captions have feature rows that are not those of one image; a row is a caption."""
    array = open_features(path)
    counts = np.array([len(image.captions) for image in images], dtype=np.int64)
    owner, first = np.arange(len(images)).repeat(counts), (counts.cumsum() - counts).repeat(counts)
    at_once = max(1, CHUNK_BYTES // array[:1].nbytes)
    for start in range(0, len(owner), at_once):
        part = slice(start, start + at_once)
        rows, firsts = (
            np.asarray(block, dtype=np.float32).reshape(len(block), -1) for block in (array[part], array[first[part]])
        )
        distance = np.linalg.norm(rows - firsts, axis=1)
        unequal = np.flatnonzero(distance > ROUNDING * np.linalg.norm(firsts, axis=1))
        release_pages(array)
        if len(unequal):
            return images[owner[start + unequal[0]]]
    return None


def check_views(features: Path, shape: Sequence[int], images: Sequence[Image]) -> list[str]:
    """Return every problem of the views beside a feature file of some shape, as views of some images, in row order."""
    problems = []
    for path in view_files([features]):
        try:
            inspection = remembered(path, inspect_features)
        except DataError as error:
            problems += error.problems
            continue
        rows, _, *rest = inspection["shape"]
        if [rows, *rest] != list(shape):
            problems.append(
                f"{path}: must have shape {(shape[0], 'N', *shape[1:])} to go with {features.name}, got "
                f"{tuple(inspection['shape'])}; move it away, or extract both again"
            )
        problems += check_values(path, inspection, images) + _problems_of(_check_origin, path, images)
        problems += _problems_of(_check_backbone, path, features)
    return problems


def images_digest(images: Sequence[Image]) -> str:
    """Return the SHA-256 over the ids of some images in row order: whose features a file holds, and in which order."""
    return hashlib.sha256("\n".join(image.id for image in images).encode(errors="surrogatepass")).hexdigest()


def check_values(path: Path, inspection: Mapping[str, Any], images: Sequence[Image] = ()) -> list[str]:
    """Name rows that hold something that is no number, with the images of the rows where each image has a row."""
    if not inspection["bad_rows"]:
        return []
    is_row_image = inspection["shape"][0] == len(images)
    named = ", ".join(
        f"row {row} ({images[row].filename or images[row].id})" if is_row_image else f"row {row}"
        for row in inspection["first_bad_rows"]
    )
    more = ", ..." if inspection["bad_rows"] > NAMED_ROWS else ""
    return [f"{path}: {inspection['bad_rows']} rows hold NaN or infinity: {named}{more}; make these features again"]


def _problems_of(check: Callable[..., list[str]], *arguments: Any) -> list[str]:
    """Return the problems that a check finds, or those of a file beside the features that cannot be read."""
    try:
        return check(*arguments)
    except DataError as error:
        return error.problems


def _check_backbone(views: Path, features: Path) -> list[str]:
    described = [sidecars(path)[0] for path in (views, features)]
    if not all(path.exists() for path in described):
        return []
    digests = [read_json(path).get("weights_digest") for path in described]
    if digests[0] == digests[1]:
        return []
    name = described[0].name
    return [f"{views}: of another backbone than {features.name}: {name} has weights_digest {digests[0]!r:.20}"]


def _check_origin(path: Path, images: Sequence[Image]) -> list[str]:
    """Compare the images that a file beside the features says they are of: ``NAME.json`` or ``NAME_ids.txt``."""
    sidecar, listing = sidecars(path)
    description = description_of(path)
    if description is not None and (digest := description.get("images_digest")) != images_digest(images):
        return [f"{path}: features of another dataset: {sidecar.name} has images_digest {digest!r:.20}, not ours"]
    if not listing.exists():
        return []
    place, lines = f"{path}: features of another dataset: {listing.name}", read_lines(listing)
    if len(lines) != len(images):
        return [f"{place} lists {len(lines)} images, the dataset has {len(images)}"]
    for number, (line, image) in enumerate(zip(lines, images, strict=True), 1):
        if line.strip() not in (image.id, image.filename):
            return [f"{place}: line {number} is {line!r}, the dataset has {image.filename or image.id!r} there"]
    return []


def sidecars(path: Path) -> tuple[Path, Path]:
    """Return the paths of the two files that may say whose features these are."""
    return path.with_suffix(".json"), path.with_name(f"{path.stem}_ids.txt")


def description_of(features: Path) -> dict[str, Any] | None:
    """Return the content of the JSON file beside features, which describes their origin; ``None`` without such."""
    path, _ = sidecars(features)
    return read_json(path) if path.exists() else None


def captions_digest(images: Sequence[Image]) -> str:
    """Return the SHA-256 over the captions of some images in row order, 64 hex digits."""
    captions = [list(image.captions) for image in images]
    return hashlib.sha256(json.dumps(captions).encode()).hexdigest()


def check_caption_features(path: Path, inspection: Mapping[str, Any], images: Sequence[Image]) -> list[str]:
    """Return why a file cannot have the features of the captions of some images, in row order."""
    shape, captions = inspection["shape"], sum(len(image.captions) for image in images)
    problems = []
    if len(shape) != 2:
        problems.append(f"{path}: features of captions must have shape (captions, D), got {tuple(shape)}")
    if shape[0] != captions:
        problems.append(
            f"{path}: {shape[0]} feature rows for {captions} captions; there must be one row a caption, in the order "
            "of the images and of each image's captions"
        )
    return problems + check_values(path, inspection) + _problems_of(_check_captions, path, images)


def feature_rows(corpus: Corpus, files: Mapping[str, Path], *, of_captions: bool = False) -> dict[str, np.ndarray]:
    """Return the feature row of each image of each split, shape (I,), int64, or of each caption, shape (C,).

    ``files`` are the feature files by split. Where the rows of images repeat, an image has that of its first caption.
    """
    rows: dict[str, np.ndarray] = {}
    for path in dict.fromkeys(files.values()):
        images = [image for image in corpus.images if files[image.split] == path]
        owner = np.array([image.split for image in images])
        counts = np.array([len(image.captions) for image in images], dtype=np.int64)
        row = np.arange(counts.sum() if of_captions else len(images))
        if of_captions:
            owner = owner.repeat(counts)
        elif len(open_features(path)) != len(images):
            row = counts.cumsum() - counts
        rows |= {split: row[owner == split] for split in SPLITS if files[split] == path}
    return rows


def _check_captions(path: Path, images: Sequence[Image]) -> list[str]:
    digest = (description_of(path) or {}).get("captions_digest")
    if digest in (None, captions_digest(images)):
        return []
    return [
        f"{path}: features of other captions: {sidecars(path)[0].name} has captions_digest {digest!r:.20}, not ours; "
        f"remove it and make it again, e.g. with `orchestrator data extract {shlex.quote(path.parent.name)} --text "
        "tfidf-svd`"
    ]
