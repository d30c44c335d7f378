"""Features of captions: ``features_text.npy``, one row a caption, beside the features of images.

Rows come in the order of the images, and of each image's captions: the order in which a dataset lists them. Where the
dataset is MS-COCO, whose val and test keep five captions of each image, the other captions have no rows.
``features_text.json`` may identify the captions of the features (``captions_digest``).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.corpus import SPLITS, Corpus, Image
from trainables.data.features import NAMED_ROWS, sidecars
from trainables.data.text_files import read_json
from trainables.errors import DataError


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
    if inspection["bad_rows"]:
        named = ", ".join(f"row {row}" for row in inspection["first_bad_rows"])
        more = ", ..." if inspection["bad_rows"] > NAMED_ROWS else ""
        problems.append(
            f"{path}: {inspection['bad_rows']} rows hold NaN or infinity: {named}{more}; make these features again"
        )
    return problems + _check_origin(path, images)


def rows_of_captions(corpus: Corpus, files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Return the feature row of each caption of each split, shape (C,), int64; ``files`` are given by split."""
    rows: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
    next_row = dict.fromkeys(files.values(), 0)
    for image in corpus.images:
        file = files[image.split]
        first, next_row[file] = next_row[file], next_row[file] + len(image.captions)
        rows[image.split].append(np.arange(first, next_row[file], dtype=np.int64))
    return {split: np.concatenate(parts) for split, parts in rows.items()}


def _check_origin(path: Path, images: Sequence[Image]) -> list[str]:
    """Compare the digest of captions in the file beside the features."""
    sidecar, _ = sidecars(path)
    if not sidecar.exists():
        return []
    try:
        told = read_json(sidecar)
    except DataError as error:
        return error.problems
    digest = told.get("captions_digest") if isinstance(told, dict) else None
    if digest in (None, captions_digest(images)):
        return []
    return [
        f"{path}: features of other captions: {sidecar.name} has captions_digest {digest!r:.20}, not ours; "
        "make them again, e.g. with `orchestrator data extract --text tfidf-svd`"
    ]
