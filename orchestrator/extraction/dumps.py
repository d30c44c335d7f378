"""Turns features that another program saved into the feature files of a dataset."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.extraction.feature_files import open_corpus, write_features
from trainables.config import TEXT
from trainables.data.corpus import SPLIT_ALIASES, SPLITS, Image
from trainables.data.features import captions_digest, images_digest
from trainables.data.foreign_features import Dump, read_dump
from trainables.errors import ConfigError, DataError


@dataclass(frozen=True)
class Unpacked:
    """Result of ``unpack_dumps``.

    Attributes:
        images: Number of images.
        captions: Number of captions.
        image_size: Features of each image.
        caption_size: Features of each caption.
        files: All files that were written.
    """

    images: int
    captions: int
    image_size: int
    caption_size: int
    files: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**self.__dict__, "files": list(self.files)}


def unpack_dumps(dataset: str, data_root: Path, paths: Sequence[Path], out: Path | None) -> Unpacked:
    """Write ``features_global.npy`` and ``features_text.npy`` of a dataset from files of image and caption features.

    Args:
        dataset: Name of a folder under ``data_root``, or a path.
        data_root: Where datasets lie.
        paths: One file with the rows of all splits, or three whose names end in train, val and test.
        out: Where the features go; ``None`` for the dataset's own folder.

    Raises:
        ConfigError: If the files do not cover all splits, or the folder is refused.
        DataError: If the dataset or a file is missing or damaged, or a file does not fit the dataset.
    """
    corpus, targets = open_corpus(dataset, data_root, out, ["global", TEXT])
    images = list(corpus.images)
    dumps = {split: read_dump(path) for split, path in _by_split(paths).items()}
    of_dump = {split: [image for image in images if split in ("", image.split)] for split in dumps}
    if problems := [wrong for split, dump in dumps.items() for wrong in dump.misfits(of_dump[split])]:
        raise DataError(problems)
    features = _in_order(images, dumps)
    about = ({"images_digest": images_digest(images)}, {"captions_digest": captions_digest(images)})
    for target, rows, origin in zip(targets, features, about, strict=True):
        write_features(target, rows, {"kind": target.stem.removeprefix("features_"), "dumps": _names(paths), **origin})
    sidecars = [target.with_suffix(".json") for target in targets]
    (count, size), (captions, caption_size) = (rows.shape for rows in features)
    return Unpacked(count, captions, size, caption_size, tuple(map(str, (*targets, *sidecars))))


def _names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]


def _by_split(paths: Sequence[Path]) -> dict[str, Path]:
    """Return split -> file; a single file has the empty name."""
    if len(paths) == 1:
        return {"": paths[0]}
    found: dict[str, Path] = {}
    for path in paths:
        split = SPLIT_ALIASES.get(path.stem.replace("-", "_").rpartition("_")[2])
        if split is not None:
            found[split] = path
    if len(found) != len(paths) or set(found) != set(SPLITS):
        raise ConfigError(
            f"give one file with the rows of all splits, or three whose names end in train, val and test, such as "
            f"clip_train.pt; got {', '.join(_names(paths))}"
        )
    return found


def _in_order(images: Sequence[Image], dumps: dict[str, Dump]) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of all images and captions in the order of the dataset."""
    if "" in dumps:
        return dumps[""].images, dumps[""].captions
    widths = {(dump.images.shape[1], dump.captions.shape[1]) for dump in dumps.values()}
    if len(widths) > 1:
        raise DataError(f"the files hold features of several widths (image, caption): {sorted(widths)}")
    of_image = np.array([image.split for image in images])
    of_caption = np.array([image.split for image in images for _ in image.captions])
    ((wide, narrow),) = widths
    rows = np.empty((len(of_image), wide), np.float32), np.empty((len(of_caption), narrow), np.float32)
    for split, dump in dumps.items():
        rows[0][of_image == split], rows[1][of_caption == split] = dump.images, dump.captions
    return rows
