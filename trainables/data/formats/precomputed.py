"""The folders of VSE++ and SCAN: ``{train,dev,test}_caps.txt`` with ``{train,dev,test}_ims.npy``.

A line is a caption, and an image has five lines in a row. Each image has one feature row, or five equal rows, one for
each caption; the number of rows tells which. ``testall_caps.txt``, if there, is the test split (COCO's 5,000 images, of
which ``test`` has the first thousand).

References:
    [Faghri2018] Faghri et al., VSE++, https://github.com/fartashf/vsepp, data.py: PrecompDataset.
    [Lee2018] Lee et al., Stacked Cross Attention, arXiv:1803.08024: region features (rows, 36, 2048).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem
from trainables.data.features import open_features
from trainables.data.text_files import read_lines
from trainables.errors import DataError

FORMAT = "captions of precomputed features (train_caps.txt, dev_caps.txt, test_caps.txt)"
CAPTIONS_PER_IMAGE = 5


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
    for file in files:
        lines = read_lines(file)
        if len(lines) % CAPTIONS_PER_IMAGE:
            problems.append(
                f"{file}: line {len(lines)}: {len(lines)} captions, which is no multiple of {CAPTIONS_PER_IMAGE}: "
                "the last image has captions missing, or another line has two"
            )
        for number, line in enumerate(lines, 1):
            if wrong := caption_problem(line):
                problems.append(f"{file}: line {number}: {wrong}")
        images += _images(file, lines)
    return Corpus(str(files[0]), images, problems)


def feature_files(files: Sequence[Path]) -> Mapping[str, Path]:
    """Return the feature file beside each caption file, by split."""
    return {_split(file): file.with_name(file.name.replace("_caps.txt", "_ims.npy")) for file in files}


def own_features(files: Sequence[Path]) -> Mapping[str, Mapping[str, Path]]:
    """Return the feature files by kind and split; ``DataError`` names missing files."""
    beside = feature_files(files)
    if missing := [path for path in beside.values() if not path.exists()]:
        raise DataError([f"{path}: no such file: the features of the captions beside it" for path in missing])
    return {feature_kind(files): beside}


def feature_kind(files: Sequence[Path]) -> str:
    """Return ``regions`` if a feature row is a matrix, ``global`` if the row is a vector."""
    first = next(iter(feature_files(files).values()))
    return "regions" if open_features(first).ndim == 3 else "global"


def _split(file: Path) -> str:
    return SPLIT_ALIASES[file.name.removesuffix("_caps.txt").replace("testall", "test")]


def _images(file: Path, lines: Sequence[str]) -> list[Image]:
    """Return an image for each five lines."""
    split = _split(file)
    return [
        Image(
            f"{file}: line {start + 1}",
            f"{split}-{start // CAPTIONS_PER_IMAGE}",
            "",
            split,
            tuple(lines[start : start + CAPTIONS_PER_IMAGE]),
        )
        for start in range(0, len(lines), CAPTIONS_PER_IMAGE)
    ]
