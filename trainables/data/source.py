"""Finds a dataset by its name under the data root or by its path, and recognises its format.

Files are looked up inside the data root and nowhere else: a link that leads out of it is refused.
"""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from trainables.config import TEXT
from trainables.data.corpus import SPLITS, Corpus
from trainables.data.formats import (
    clip_retrieval,
    clips,
    coco,
    flickr,
    karpathy,
    label_sets,
    labels,
    msrvtt,
    passages,
    precomputed,
)
from trainables.data.importing.sources import describe_folder
from trainables.data.npy_files import SAFETENSORS
from trainables.errors import Blaming, DataError
from trainables.plugins.in_use import find_plugin, offered, plugin_offering, run_offer, use
from trainables.plugins.plugin import Plugin, installed_plugins


class Format(Protocol):
    """A module that reads one format.

    A module whose files hold features as well has a function ``own_features(files)``, which returns their files by kind
    and split. A module of one modality has ``ONE_MODALITY = True``: a caption is the class of its image. One whose
    captions are labels that images share has ``LABEL_SETS = True``, and one whose images are passages ``PASSAGES``.
    """

    FORMAT: str

    def find(self, folder: Path) -> list[Path]:
        """Return the files that hold captions and splits, empty if the folder has another format."""

    def read(self, files: Sequence[Path]) -> Corpus:
        """Read these files."""


SUFFIXES = (".npy", SAFETENSORS)
"""Suffixes of feature files, in the order in which they are looked for."""

# COCO first: its folders often hold the Karpathy JSON as well, for the splits.
FORMATS: tuple[Format, ...] = (
    *(coco, karpathy, flickr, precomputed, clip_retrieval),
    *(label_sets, labels, passages, msrvtt, clips),
)


@dataclass(frozen=True)
class Source:
    """A dataset that was found and not yet read.

    No file of the dataset may leave the ``roots``, resolved folders. ``files`` have captions and splits.
    """

    name: str
    folder: Path
    roots: tuple[Path, ...]
    format: Format
    files: tuple[Path, ...]

    def read(self) -> Corpus:
        """Read captions and splits."""
        with Blaming():
            return self.format.read(self.files)

    @property
    def plugin(self) -> Plugin | None:
        """The plug-in that reads the dataset; ``None`` where a format of ours reads it."""
        owners = (plugin_offering("formats", form) for form in offered("formats") if _reader_of(form) is self.format)
        return next(owners, None)

    @property
    def has_one_modality(self) -> bool:
        """Whether images retrieve images of their class instead of captions."""
        return bool(getattr(self.format, "ONE_MODALITY", False))

    @property
    def has_label_sets(self) -> bool:
        """Whether captions are labels of a vocabulary, which images share."""
        return bool(getattr(self.format, "LABEL_SETS", False))

    @property
    def has_passages(self) -> bool:
        """Whether images are passages: the id of each is its text."""
        return bool(getattr(self.format, "PASSAGES", False))

    def feature_kinds(self) -> list[str]:
        """Return the kinds of existing features, e.g. ``global`` and ``regions``."""
        stems = sorted({path.stem for suffix in SUFFIXES for path in self.folder.glob(f"features_*{suffix}")})
        kinds = [stem.removeprefix("features_") for stem in stems]
        try:
            return list(dict.fromkeys([*kinds, *self._own_features()]))
        except DataError:
            return kinds

    def feature_files(self, kind: str) -> Mapping[str, Path]:
        """Return the feature file of each split; one file may serve them all. ``DataError`` lists what is there."""
        paths = [self.folder / f"features_{kind}{suffix}" for suffix in SUFFIXES]
        path = next((path for path in paths if path.exists()), paths[0])
        if not path.exists():
            if (files := self._own_features().get(kind)) is not None:
                return files
            there = ", ".join(self.feature_kinds()) or "none"
            raise DataError(
                f"{path}: no such features; there are: {there}. Ask for one of these, or make them with "
                f"`orchestrator data extract {self.name}{EXTRACTED_BY.get(TEXT if self.has_passages else kind, '')}`"
                f"{_to_rename(self.folder) if there == 'none' else ''}"
            )
        return dict.fromkeys(SPLITS, path)

    def own_feature_files(self) -> list[Path]:
        """Return the feature files that belong to the dataset's form, such as those of VSE++, where they are there."""
        try:
            own = self._own_features()
        except DataError:
            return []
        return list(dict.fromkeys(path for by_split in own.values() for path in by_split.values()))

    def _own_features(self) -> Mapping[str, Mapping[str, Path]]:
        own = getattr(self.format, "own_features", None)
        with Blaming():
            return {} if own is None else own(self.files)


def find_source(name: str, data_root: Path) -> Source:
    """Find a dataset by its name under the data root or by its path; ``DataError`` says what is there instead."""
    folder = data_root / name
    if not folder.is_dir() and (os.sep in name or name in (".", "..")):
        folder = Path(name)
    if not folder.is_dir():
        raise DataError(_unknown(name, data_root))
    match = _read_by(folder)
    if match is None:
        # After our formats, because the code of installed packages runs here.
        use(find_plugin(package) for package, offers in installed_plugins().items() if "formats" in offers)
        match = _read_by(folder)
    if match is None:
        if (described := describe_folder(folder)) is not None:
            raise DataError(
                f"{folder}: {described}; `orchestrator data import {folder} --out NEW` makes a dataset of it"
            )
        known = "; ".join(reader.FORMAT for reader in formats())
        raise DataError(f"{folder}: holds no dataset of a known format: {known}{_to_rename(folder)}")
    # The dataset's folder may itself be a link, which the user made; links in the folder may not lead outside.
    roots = (data_root.resolve(), folder.resolve()) if folder.parent == data_root else (folder.resolve(),)
    return Source(folder.resolve().name, folder, roots, *match)


EXTRACTED_BY = {TEXT: " --text tfidf-svd", "regions": " --features regions"}
"""Kind of features -> the option with which `data extract` makes them, where that is not the default."""


def dataset_names(data_root: Path) -> list[str]:
    """Return the names of the datasets under the data root, sorted."""
    if not data_root.is_dir():
        return []
    folders = sorted(path for path in data_root.iterdir() if path.is_dir() and not path.name.startswith("."))
    readers = formats()
    return [folder.name for folder in folders if any(_find(reader, folder) for reader in readers)]


def formats() -> list[Format]:
    """Return our formats, then the formats of the plug-ins in use, whose code runs.

    Raises:
        PluginError: If a plug-in that offers a form of data cannot be run.
    """
    return [*FORMATS, *(_reader_of(name) for name in offered("formats"))]


def _reader_of(form: str) -> Format:
    reader: Format = run_offer("formats", form)[0].definition
    return reader


def _read_by(folder: Path) -> tuple[Format, tuple[Path, ...]] | None:
    """Return the format that reads a folder, with the files that it reads; ``None`` where no format does."""
    candidates = ((reader, tuple(_find(reader, folder))) for reader in formats())
    return next((candidate for candidate in candidates if candidate[1]), None)


def _find(reader: Format, folder: Path) -> list[Path]:
    with Blaming():
        return reader.find(folder)


def _to_rename(folder: Path) -> str:
    """Return the sentence that names arrays of a folder that are no features by their names, and their names here.

    Fewer rows are images, more rows captions; of equal numbers the names decide, or else nothing does.
    """
    ours = ("features_", "augmented_", ".")
    paths = sorted(path for path in folder.glob("*.npy") if not path.name.startswith(ours))
    shapes: dict[Path, tuple[int, ...]] = {}
    for path in paths:
        with suppress(ValueError, OSError):
            shapes[path] = np.load(path, mmap_mode="r", allow_pickle=False).shape
    if len(shapes) != 2 or any(len(shape) < 2 for shape in shapes.values()):
        return ""
    of_captions = re.compile(r"cap|text|txt|sent", re.I)
    images, captions = sorted(shapes, key=lambda path: (shapes[path][0], bool(of_captions.search(path.stem))))
    kind = "global" if len(shapes[images]) == 2 else "regions"
    return (
        f". Rename {images.name} ({shapes[images][0]:,} rows) to features_{kind}.npy, one row an image, and "
        f"{captions.name} ({shapes[captions][0]:,} rows) to features_{TEXT}.npy, one row a caption"
    )


def _unknown(name: str, data_root: Path) -> str:
    there = dataset_names(data_root)
    sentences = [f"no dataset {name!r} in the data root {data_root}"]
    if not data_root.is_dir():
        sentences.append("That folder does not exist: name another with --data-root")
    else:
        sentences.append(f"There are: {', '.join(there) or 'none'}")
    nearest = difflib.get_close_matches(name, [*there, "scenes"], n=1)
    if nearest and nearest[0] != name:
        sentences.append(f"Perhaps {nearest[0]!r} is meant")
    if "scenes" not in there and "scenes" in (name, *nearest):
        out = data_root / "scenes"
        sentences.append(f"Make scenes with `orchestrator data generate scenes --images 2000 --seed 0 --out {out}`")
    return ". ".join(sentences)
