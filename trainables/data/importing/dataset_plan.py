"""Plans a dataset of what was read of sources: its images, their splits and features; nothing is written yet."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from trainables.data.corpus import SPLITS, Image, filename_problem, is_unicode
from trainables.data.importing.columns import suffix_of
from trainables.data.importing.features import Matrix, Order, choose_sides, in_order, side_of
from trainables.data.importing.material import CaptionedPicture, Material, Taken, is_picture
from trainables.data.importing.splits import Rule, draw_splits, join_groups, named_splits
from trainables.errors import DataError


@dataclass(frozen=True)
class DatasetPlan:
    """A dataset that can be written.

    Attributes:
        images: Images in the order in which the sources name them first, with their captions; the id is the number.
        pictures: Where the picture of each image is; ``None`` where the source only names it.
        features: Side (``images``, ``captions``) -> rows in the order of the images, or of their captions.
        splits: In words, how the splits came about.
        taken: What was taken as what.
    """

    images: Sequence[Image]
    pictures: Sequence[Path | Callable[[], bytes] | None]
    features: Mapping[str, np.ndarray]
    splits: str
    taken: Sequence[Taken]


@dataclass
class _Entry:
    """An image with the pairs of it, and the indices of its captions in the source."""

    pair: CaptionedPicture
    digest: str
    captions: list[str]
    rows: list[int]
    keys: list[str]


def plan_dataset(material: Material, matrices: Sequence[Matrix], rule: Rule | None, advice: str) -> DatasetPlan:
    """Plan the dataset; ``rule`` draws new splits, ``None`` takes those of the sources.

    Raises:
        DataError: If there are problems, the sources name no splits and no rule is given (the text ends with
            ``advice``), or features do not fit.
    """
    if material.problems:
        raise DataError(material.problems)
    entries = _entries(material.pairs, splits_count=rule is None)
    order = Order([entry.pair.image for entry in entries], _owners(entries, len(material.pairs)))
    groups = join_groups([entry.keys for entry in entries])
    splits, how = _splits(material, entries, groups, rule, advice)
    captions = np.argsort(order.owners, kind="stable")
    of_columns = [
        Matrix(f"column {name}", side_of(name), values) for name, values in material.vectors.items() if side_of(name)
    ]
    features, taken = {}, []
    for side, matrix in choose_sides([*matrices, *of_columns], order).items():
        rows, said = in_order(matrix, side, order)
        features[side] = rows if side == "images" else rows[captions]
        taken.append(Taken(matrix.place, f"features of {side} {tuple(rows.shape)} {matrix.values.dtype}, {said}"))
    images = [
        Image(entry.pair.place, str(number), name, split, tuple(entry.captions))
        for number, (entry, name, split) in enumerate(zip(entries, _file_names(entries), splits, strict=True))
    ]
    sizes = " / ".join(f"{sum(split == name for split in splits):,}" for name in SPLITS)
    taken += [Taken("splits", f"{how}: {sizes} pictures of train / val / test")]
    pictures = [entry.pair.picture for entry in entries]
    return DatasetPlan(images, pictures, features, how, [*material.taken, *taken])


def _entries(pairs: Sequence[CaptionedPicture], *, splits_count: bool) -> list[_Entry]:
    """Return the images of pairs in the order in which they are named first.

    Raises:
        DataError: If a name is no Unicode, or where ``splits_count`` a picture is in two splits.
    """
    digests: dict[object, str] = {}
    entries: dict[tuple[str, str], _Entry] = {}
    problems = []
    for row, pair in enumerate(pairs):
        if not is_unicode(pair.image):
            problems.append(f"{pair.place}: the picture's name {pair.image!r:.80} is no Unicode text")
            continue
        digest = _digest_of(pair, digests)
        entry = entries.get((pair.image, digest))
        if entry is None:
            keys = [f"bytes {digest}"] if digest else [f"name {pair.image}"]
            entry = entries[pair.image, digest] = _Entry(pair, digest, [], [], keys)
        elif splits_count and entry.pair.split != pair.split:
            problems.append(
                f"{pair.place}: {pair.image!r:.80} is of {pair.split!r:.40} here and of {entry.pair.split!r:.40} in "
                f"{entry.pair.place}: one picture must be in one split"
            )
        entry.captions.append(pair.caption)
        entry.rows.append(row)
        if pair.group:
            entry.keys.append(f"group {pair.group}")
    if problems:
        raise DataError(problems)
    return list(entries.values())


def _digest_of(pair: CaptionedPicture, digests: dict[object, str]) -> str:
    """Return the SHA-256 of a picture, empty where there is none; each is read once."""
    if pair.picture is None:
        return ""
    if pair.picture not in digests:
        digests[pair.picture] = hashlib.sha256(read_picture(pair.picture)).hexdigest()
    return digests[pair.picture]


def read_picture(picture: Path | Callable[[], bytes]) -> bytes:
    """Return the bytes of a picture (``DataError`` if its file cannot be read)."""
    try:
        return picture.read_bytes() if isinstance(picture, Path) else picture()
    except OSError as error:
        raise DataError(f"{picture}: cannot be read: {error.strerror}") from None


def _owners(entries: Sequence[_Entry], pairs: int) -> np.ndarray:
    owners = np.empty(pairs, dtype=np.int64)
    for number, entry in enumerate(entries):
        owners[entry.rows] = number
    return owners


def _splits(
    material: Material, entries: Sequence[_Entry], groups: Sequence[int], rule: Rule | None, advice: str
) -> tuple[list[str], str]:
    if rule is not None:
        count = len(set(groups))
        by = "pictures by their bytes" if any(entry.digest for entry in entries) else "names of pictures"
        how = f"drawn, {rule}, over {count:,} groups ({by})"
        if material.splits_named:
            how += f", in place of {material.splits_named}"
        return draw_splits(groups, [entry.pair.image for entry in entries], rule), how
    if not material.splits_named:
        what = material.taken[0].what if material.taken else "the source"
        columns = f" is a table with the columns {', '.join(material.columns)} and" if material.columns else ""
        raise DataError(f"{what}{columns} names no splits; {advice}")
    ours = named_splits([entry.pair.split for entry in entries], [entry.pair.place for entry in entries])
    return ours, f"those of {material.splits_named}"


def _file_names(entries: Sequence[_Entry]) -> list[str]:
    """Return a file name inside the dataset for each image, each once."""
    names: list[str] = []
    taken: set[str] = set()
    for number, entry in enumerate(entries):
        name = entry.pair.image.replace("\\", "/")
        if filename_problem(name) is not None:
            name = PurePosixPath(name).name or f"picture-{number}"
        if isinstance(entry.pair.picture, Path) and not is_picture(name):
            name += entry.pair.picture.suffix.lower()
        elif entry.pair.picture is not None and not is_picture(name):
            name += suffix_of(read_picture(entry.pair.picture))
        while name in taken:
            path = PurePosixPath(name)
            name = path.with_name(f"{entry.digest[:12] or number}-{path.name}").as_posix()
        taken.add(name)
        names.append(name)
    return names
