"""Text of datasets: files whose mistakes are named with their line, and strings in one flat array.

Such an array is memory-mapped, shared between processes, and decoded one string at a time.
"""

import hashlib
import json
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from trainables.errors import DataError

Record = TypeVar("Record")

LARGEST_FILE = 256 << 20
"""Bytes of a text file at most. COCO's largest has about 140 MB; JSON takes about ten times its size in memory."""


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        DataError: If the path is no regular file, the file is larger than ``LARGEST_FILE``, or a line is no UTF-8 text.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{path}: must be a regular file")
        size = status.st_size
        if size > LARGEST_FILE:
            raise DataError(
                f"{path}: has {size >> 20:,} MB; a text file has at most {LARGEST_FILE >> 20}, since "
                "ten times as much memory is needed to read it"
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}: line {line}: not UTF-8 text; convert the file to UTF-8") from error


def file_digest(path: Path) -> dict[str, Any]:
    """Return the SHA-256 of a file as ``digest``."""
    try:
        with path.open("rb") as file:
            return {"digest": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file without their ends; a line end that closes the file adds none."""
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; ``DataError`` names line and column of what is broken."""
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}: line {error.lineno}, column {error.colno}: broken JSON: {error.msg}; fetch the file again"
        ) from error
    except (RecursionError, ValueError) as error:
        reason = "its lists or objects are nested too deeply" if isinstance(error, RecursionError) else error
        raise DataError(f"{path}: broken JSON: {reason}; fetch the file again") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: another schema: must be a JSON object, got a {type(content).__name__}")
    return content


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line of a UTF-8 file after its place, which messages name."""
    for number, line in enumerate(read_lines(path), 1):
        yield f"{path}: line {number}", line


def records(path: Path, content: dict[str, Any], key: str, known_as: str) -> Iterator[tuple[str, Any]]:
    """Return place and value of each entry of a list of a JSON file; ``DataError`` if the file has another schema."""
    value = content.get(key)
    if not isinstance(value, list):
        keys = ", ".join(sorted(map(str, content))) or "nothing"
        raise DataError(f"{path}: another schema: {known_as} has a list {key!r}; this file has {keys:.80}")
    return ((f"{path}: {key}[{index}]", record) for index, record in enumerate(value))


def checked(
    entries: Iterable[tuple[str, Record]], problem_of: Callable[[Record], str | None], problems: list[str]
) -> Iterator[tuple[str, Record]]:
    """Yield the records that have no problem, with their places; add the problems of the others, with theirs."""
    for place, record in entries:
        if wrong := problem_of(record):
            problems.append(f"{place}: {wrong}")
        else:
            yield place, record


class Strings(Sequence[str]):
    """A sequence of strings, stored as UTF-8 bytes one after the other.

    Attributes:
        data: The bytes of all strings, shape (B,), uint8.
        offsets: String i is ``data[offsets[i]:offsets[i + 1]]``; shape (N + 1,), int64.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def pack(cls, strings: Iterable[str]) -> "Strings":
        """Copy strings into flat arrays."""
        encoded = [string.encode() for string in strings]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def at(self, places: np.ndarray) -> "Strings":
        """Return some of the strings, of indices (N,)."""
        return Strings.pack(self[int(place)] for place in places)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Strings": ...
    def __getitem__(self, index: int | slice) -> "str | Strings":
        if isinstance(index, slice):
            return Strings.pack(self[i] for i in range(*index.indices(len(self))))
        position = range(len(self))[index]
        return self.data[self.offsets[position] : self.offsets[position + 1]].tobytes().decode()

    def __repr__(self) -> str:
        return f"Strings({len(self)})"
