"""Reads features of pictures and captions from files of any kind, and puts their rows into the order of a dataset.

A file holds one matrix, or several by name, and perhaps the names of the pictures of its rows. Which side a matrix is
of is decided by its name, then by its number of rows: one for each picture, or one for each caption. Without names of
pictures, rows come in the order in which the sources name the pictures first, and captions in theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from trainables.data.features import ROUNDING
from trainables.data.foreign_features import CAPTIONS, IDS, IMAGES, refuse_unpacked
from trainables.errors import DataError, reason_of
from trainables.extras import require

SUFFIXES = (".npy", ".npz", ".pt", ".pth", ".safetensors", ".h5", ".hdf5")

_OF_IMAGES = ("image", "img", "visual", "vision", "picture", "photo", "clip_i", "ims")
_OF_CAPTIONS = ("text", "txt", "caption", "sentence", "caps", "lang")


@dataclass(frozen=True)
class Matrix:
    """A matrix of features of one side.

    Attributes:
        place: File, with the name of the entry.
        side: ``images`` or ``captions``; empty if the name does not say it.
        values: Shape (rows, D) or (rows, R, D), floating.
        names: Name of the picture of each row; empty where the file has none.
    """

    place: str
    side: str
    values: np.ndarray
    names: tuple[str, ...] = ()


def side_of(name: str) -> str:
    """Return the side that a name says: ``images``, ``captions``, or nothing.

    Example:
        >>> side_of("img_emb_0.npy"), side_of("caption_features"), side_of("clip.npy")
        ('images', 'captions', '')
    """
    lower = name.lower()
    sides = [
        side
        for side, words in (("images", _OF_IMAGES), ("captions", _OF_CAPTIONS))
        if any(word in lower for word in words)
    ]
    return sides[0] if len(sides) == 1 else ""


def read_matrices(path: Path) -> list[Matrix]:
    """Return the matrices of a file.

    Raises:
        DataError: If the file is missing, damaged, needs code to be loaded, or holds no matrix.
        MissingExtraError: If h5py is needed and not installed.
    """
    try:
        entries = _entries(path)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001  # of a damaged file NumPy, torch, h5py and safetensors raise any error
        raise DataError(f"{path}: cannot be read without running code of the file: {reason_of(error)}") from None
    names = next((_texts(entries[name]) for name in (*IDS, "names", "image_names", "ids") if name in entries), ())
    matrices = []
    for name, value in entries.items():
        array = _array(value)
        if array is None or array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind != "f":
            continue
        side = "images" if name in IMAGES else "captions" if name in CAPTIONS else side_of(name) or side_of(path.stem)
        place = str(path) if len(entries) == 1 else f"{path}: {name}"
        fits = side != "captions" and len(names) == len(array)
        matrices.append(Matrix(place, side, array, names if fits else ()))
    if not matrices:
        there = ", ".join(f"{name} {_about(value)}" for name, value in entries.items()) or "nothing"
        raise DataError(f"{path}: holds no matrix of float numbers, shape (rows, D); there are: {there:.200}")
    return matrices


def _entries(path: Path) -> Mapping[str, Any]:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return {path.stem: np.load(path, allow_pickle=False, mmap_mode="r")}
    if suffix == ".npz":
        refuse_unpacked(path)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    if suffix in (".h5", ".hdf5"):
        require("import", "reading HDF5 files", "h5py")
        import h5py

        with h5py.File(path, "r") as file:
            found: dict[str, Any] = {}
            file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
        return found
    if suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    refuse_unpacked(path)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, Mapping):
        if content and all(hasattr(value, "dim") and value.dim() == 1 for value in content.values()):
            # A vector for each picture, by its name.
            rows = torch.stack([value.float() for value in content.values()]).numpy()
            return {"image_features": rows, IDS[0]: [str(name) for name in content]}
        return {str(name): value for name, value in content.items()}
    return {path.stem: content}


def _array(value: Any) -> np.ndarray | None:
    if hasattr(value, "detach"):
        value = value.detach()
        return np.asarray((value.float() if value.dtype.is_floating_point else value).numpy())
    return value if isinstance(value, np.ndarray) else None


def _about(value: Any) -> str:
    dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    return f"{dtype} {tuple(getattr(value, 'shape', ()))}"


def _texts(value: Any) -> tuple[str, ...]:
    listed = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, list | tuple):
        return ()
    return tuple(item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in listed)


@dataclass(frozen=True)
class Order:
    """The order in which sources name pictures and captions.

    ``images`` are the names of the pictures, each once; ``owners`` the index of each caption's picture, shape (C,).
    """

    images: Sequence[str]
    owners: np.ndarray


def choose_sides(matrices: Sequence[Matrix], order: Order) -> dict[str, Matrix]:
    """Return the matrix of each side, ``images`` and ``captions`` (``DataError`` where that is not clear)."""
    chosen: dict[str, Matrix] = {}
    counts = {"images": len(order.images), "captions": len(order.owners)}
    for matrix in sorted(matrices, key=lambda each: not each.side):
        fitting = [side for side, count in counts.items() if len(matrix.values) == count]
        left = [side for side in fitting if side not in chosen]
        side = matrix.side or (left[0] if len(left) == 1 else "")
        if not side and fitting:
            raise DataError(
                f"{matrix.place}: {len(matrix.values):,} rows may be those of pictures or of captions; give the file a "
                "name with image or text in it"
            )
        if not side:
            raise DataError(_wrong_count(matrix, counts))
        if side in chosen:
            raise DataError(
                f"{matrix.place}: are features of {side} like {chosen[side].place}; give one file of each side"
            )
        chosen[side] = matrix
    return chosen


def _wrong_count(matrix: Matrix, counts: Mapping[str, int]) -> str:
    return (
        f"{matrix.place}: {len(matrix.values):,} rows, where the sources name {counts['images']:,} pictures with "
        f"{counts['captions']:,} captions: these are features of others"
    )


def in_order(matrix: Matrix, side: str, order: Order) -> tuple[np.ndarray, str]:
    """Return the rows of a side in the order of the sources, and in words how they were put there.

    Raises:
        DataError: If there are too few or too many rows, a picture has none, or values are not finite.
    """
    counts = {"images": len(order.images), "captions": len(order.owners)}
    values = matrix.values
    if matrix.names and side == "images":
        rows = _by_name(matrix, order)
        return _finite(matrix.place, values[rows]), "by their names"
    if len(values) == counts[side]:
        return _finite(matrix.place, np.asarray(values)), f"in the order of the {side} in the sources"
    if side == "images" and len(values) == counts["captions"]:
        first = np.unique(order.owners, return_index=True)[1]
        chosen = np.asarray(values)[first]
        distance = np.linalg.norm((values - chosen[order.owners]).reshape(len(values), -1), axis=1)
        norm = np.linalg.norm(chosen.reshape(len(chosen), -1), axis=1)[order.owners]
        if wrong := np.flatnonzero(distance > ROUNDING * norm).tolist():
            raise DataError(
                f"{matrix.place}: row {wrong[0]}: differs from an earlier row of "
                f"{order.images[order.owners[wrong[0]]]!r}; there must be one row a picture, or equal rows for it"
            )
        return _finite(matrix.place, chosen), "a row a caption, of which each picture keeps the first"
    raise DataError(_wrong_count(matrix, counts))


def _by_name(matrix: Matrix, order: Order) -> list[int]:
    whole = {name: row for row, name in enumerate(matrix.names)}
    by_file: dict[str, int] = {}
    for name, row in whole.items():
        # Names of two folders may end alike: then neither is meant.
        by_file[PurePath(name).stem] = -1 if PurePath(name).stem in by_file else row
    rows = [whole.get(name, by_file.get(PurePath(name).stem, -1)) for name in order.images]
    if -1 in rows:
        name = order.images[rows.index(-1)]
        raise DataError(
            f"{matrix.place}: has no row of the picture {name!r:.80}; its rows have names like {matrix.names[0]!r:.60}"
        )
    return rows


def _finite(place: str, values: np.ndarray) -> np.ndarray:
    bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if len(bad):
        raise DataError(
            f"{place}: row {bad[0]} holds NaN or infinity, of {len(bad):,} such rows; make the features again"
        )
    return values
