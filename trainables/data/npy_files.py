"""Arrays in ``.npy`` and safetensors files: mapped whole, and read a row at a time.

A file is accepted if its rows lie one after the other: float16 or float32 in this machine's byte order, in C order.
Every other file is refused by name, because its rows would be read from wrong places. A safetensors file holds the
array as its only tensor, under any name.
"""

import json
import math
import mmap
import os
import tokenize
from pathlib import Path
from typing import BinaryIO

import numpy as np

from trainables.errors import DataError

DTYPES = (np.dtype(np.float16), np.dtype(np.float32))
"""Accepted dtypes, in this machine's byte order."""

SAFETENSORS = ".safetensors"
"""Suffix of the files that hold their array as a tensor."""

_LONGEST_HEADER = 100_000_000
"""Largest header in bytes, the limit of the format."""

_BROKEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)
"""Errors of the system and of NumPy's parser of headers about a file that is missing, cut short, or no array."""


class _MappedFile(mmap.mmap):
    """A file that is mapped whole.

    The first value is at byte ``start``; ``version`` identifies the mapped file, to notice a changed or replaced file.
    """

    path: Path
    start: int
    version: tuple[int, ...]


def map_array(path: Path) -> np.ndarray:
    """Map an array of float16 or float32, read-only.

    Raises:
        DataError: If the file is missing, cut short, or holds something else, or its rows are not stored one by one.
    """
    try:
        with path.open("rb") as file:
            shape, is_fortran, dtype = _read_safetensors(file) if path.suffix == SAFETENSORS else _read_header(file)
            start, status = file.tell(), os.fstat(file.fileno())
            _check_layout(path, shape, is_fortran, dtype)
            missing = start + math.prod(shape) * dtype.itemsize - status.st_size
            if missing > 0:
                raise ValueError(f"{missing} bytes are missing at its end")
            mapped = _MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.path, mapped.start, mapped.version = path.resolve(), start, _version(status)
        return np.ndarray(shape, dtype, buffer=mapped, offset=start)
    except _BROKEN as error:
        form = "a safetensors file" if path.suffix == SAFETENSORS else "an .npy array"
        raise DataError(f"{path}: cannot be read as {form}: {error}; write or fetch it again") from error


def map_lengths(path: Path, *, rows: int, most: int) -> np.ndarray:
    """Return the sizes of the sets in the rows of an array, shape (rows,), int64.

    Raises:
        DataError: If the file is no ``.npy`` of ``rows`` whole numbers from 0 to ``most``.
    """
    try:
        lengths = np.load(path, allow_pickle=False)
    except (*_BROKEN, EOFError) as error:
        raise DataError(f"{path}: cannot be read as an .npy array: {error}; write or fetch it again") from error
    if not isinstance(lengths, np.ndarray) or lengths.shape != (rows,) or lengths.dtype.kind not in "iu":
        got = f"{lengths.dtype} of shape {lengths.shape}" if isinstance(lengths, np.ndarray) else type(lengths).__name__
        raise DataError(f"{path}: lengths must be whole numbers of shape ({rows},), got {got}")
    if (outside := np.flatnonzero((lengths < 0) | (lengths > most))).size:
        row = int(outside[0])
        raise DataError(f"{path}: row {row}: a length must be from 0 to {most}, got {lengths[row]}")
    return lengths.astype(np.int64)


def read_rows(array: np.ndarray, rows: np.ndarray, views: np.ndarray | None = None) -> np.ndarray:
    """Copy rows of an array, or one view of each row, without reading through the memory map.

    A row that is touched through a memory map brings megabytes around it into the process where the system keeps files
    in large pages. One batch was seen to map 189 MB. Read from the file, it comes from the same cache, which all
    processes share.

    Args:
        array: Shape (rows, ...), or (rows, N, ...) with ``views``; an array that is no whole mapped file is indexed.
        rows: Shape (B,), integers in [0, rows).
        views: Shape (B,), integers in [0, N).

    Raises:
        DataError: If the file has been removed or changed since it was mapped.
        IndexError: If a row or view lies outside the array.
    """
    index = (rows,) if views is None else (rows, views)
    file = array.base
    # A part of a mapped array, or one with its axes turned, has another base: its rows lie elsewhere in the file.
    if not isinstance(file, _MappedFile):
        return array[index]
    sizes = array.shape[: len(index)]
    if len(rows) and any(part.min() < 0 or part.max() >= size for part, size in zip(index, sizes, strict=True)):
        raise IndexError(f"{file.path}: a row is outside {sizes}")
    places = np.ravel_multi_index(index, sizes)
    values = np.empty((len(rows), *array.shape[len(index) :]), dtype=array.dtype)
    _read_places(file, places, values)
    return values


def release_pages(array: np.ndarray) -> None:
    """Give back the pages of a memory-mapped array that were read; any other array is left alone."""
    if isinstance(array.base, mmap.mmap):
        array.base.madvise(mmap.MADV_DONTNEED)


def _read_places(file: _MappedFile, places: np.ndarray, values: np.ndarray) -> None:
    """Fill an array, (B, ...), with the rows at some places, (B,), of a file that must be as it was when mapped."""
    size = values.itemsize * math.prod(values.shape[1:])
    changed = f"{file.path}: was changed or removed while it was in use; start again with the file as it is now"
    try:
        # Opened anew, since the map closes its file: a few microseconds beside a batch's milliseconds.
        with file.path.open("rb", buffering=0) as opened:
            if _version(os.fstat(opened.fileno())) != file.version:
                raise DataError(changed)
            for target, place in zip(values, places.tolist(), strict=True):
                if os.preadv(opened.fileno(), [target], file.start + place * size) != size:
                    raise DataError(changed)
    except FileNotFoundError:
        raise DataError(changed) from None


def _read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether the order is Fortran's, and dtype, without touching the values; one of ``_BROKEN``."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    # Version 3 differs from 2 in the encoding of field names, which no array of numbers has.
    if version in ((2, 0), (3, 0)):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"its format is version {version[0]}.{version[1]}, which is not known")


def _read_safetensors(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return the same of a safetensors file, and go to its first value; one of ``_BROKEN``.

    The file begins with the length of its header, 8 bytes, and the header, JSON.
    """
    size = int.from_bytes(file.read(8), "little")
    if size > _LONGEST_HEADER:
        raise ValueError(f"its header would have {size:,} bytes")
    tensors = json.loads(file.read(size))
    if not isinstance(tensors, dict):
        raise ValueError("its header is no JSON object")
    tensors.pop("__metadata__", None)
    if len(tensors) != 1:
        raise ValueError(f"it holds {len(tensors)} tensors ({', '.join(sorted(tensors))[:60]}), where one is expected")
    (layout,) = tensors.values()
    (begin, _), shape = layout["data_offsets"], tuple(layout["shape"])
    if not all(type(number) is int and number >= 0 for number in (begin, *shape)):
        raise ValueError("its header has a shape, or an offset, that is no whole number of at least 0")
    file.seek(8 + size + begin)
    return shape, False, np.dtype({"F16": "<f2", "F32": "<f4"}.get(layout["dtype"], "V1"))


def _check_layout(path: Path, shape: tuple[int, ...], is_fortran: bool, dtype: np.dtype) -> None:
    """Refuse what is not stored as rows of numbers, one after the other."""
    if dtype.hasobject:
        raise DataError(
            f"{path}: an .npy that needs pickle is refused, because loading it can run code; "
            "save it again as an array of float16 or float32"
        )
    if dtype not in DTYPES:
        other = "" if dtype.isnative else " in the byte order of another machine"
        raise DataError(f"{path}: features must be float16 or float32, got {dtype}{other}; convert them with .astype")
    # With at most one axis longer than 1 both orders are the same bytes.
    if is_fortran and sum(size != 1 for size in shape) > 1:
        raise DataError(
            f"{path}: is stored in Fortran order, column by column, where features are read row by row; save it again "
            "with numpy.save(path, numpy.ascontiguousarray(array))"
        )


def _version(status: os.stat_result) -> tuple[int, ...]:
    """Return numbers that change when a file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
