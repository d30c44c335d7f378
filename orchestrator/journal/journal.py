"""The append-only record of all events of an experiment, from which everything is restored after a crash.

One JSON object a line: ``n`` (0, 1, 2 ... without a gap), ``time`` (the date, in seconds since the Unix epoch),
``elapsed`` (seconds since this process opened the journal, which no change of the machine's clock affects), ``kind``,
the fields of the event, and ``crc``, the CRC-32 of the line up to ``crc``. The first line also has ``format``, the
number of the journal's format; a journal without the number has format 1, else equal to format 2. A record is on the
disk before ``append`` returns, which costs 0.3 ms on a local disk. A kill can tear only the last line: a torn line is
cut off, and its event happens again.

``records.py`` has the class of each kind of record.
"""

import hashlib
import json
import logging
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from orchestrator.journal.lock import AlreadyRunningError, take
from orchestrator.journal.records import CHECKSUM, Record, RecordError, read_record, read_values
from trainables.errors import UserError
from trainables.files import write_whole

FORMAT = 2
"""Number of the format of new journals, and the highest format that this version reads."""

Line = Mapping[str, Any]
"""The values of a line by name, without its checksum."""

_log = logging.getLogger(__name__)

_CHECKSUM = b',"%b":"' % CHECKSUM.encode()

_SEAL_FROM = -len(_CHECKSUM) - len('00000000"}\n')
"""Position of the checksum in a line, counted from the end."""


class JournalError(UserError):
    """A journal that is missing, or damaged in a way that no kill explains."""


class JournalFormatError(JournalError):
    """A journal that this version does not read: of a newer format, or of population-based training."""


class JournalGoneError(JournalError):
    """A journal that was removed, moved or replaced while this process wrote it."""

    exit_code = 1


class Journal:
    """A journal opened for writing; one process at a time.

    The process locks the journal itself as well, because a person may remove the lock file (see ``lock.py``) in the
    belief that its process is dead.

    Attributes:
        records: The records of the file when it was opened.
        torn: Whether an incomplete or damaged last record was cut off; before a damaged record is cut off, the file is
            copied.
    """

    def __init__(self, path: Path) -> None:
        """Open or create a journal, read it, and cut off a torn last record.

        Raises:
            JournalError: If any record but the last is damaged, or a newer version wrote the journal.
            AlreadyRunningError: If another process writes it.
        """
        self._path = path
        # Unbuffered: the kernel has each write at once, so a kill of this process loses nothing.
        self._file = path.open("ab", buffering=0)
        try:
            refuse_taken(self._file, path)
            content = path.read_bytes()
            self.records, whole = _parse(content, path)
        except UserError:
            self._file.close()
            raise
        self.torn = whole < len(content)
        if is_damaged(content, whole):
            copy = keep_copy(path, content)
            said = "%s: the last line, %d, is damaged and was cut off; its event happens again; the file as it was: %s"
            _log.warning(said, path, len(self.records) + 1, copy)
        self._count, self._size = len(self.records), whole
        self._opened = time.monotonic()
        self._file.truncate(whole)
        os.fsync(self._file.fileno())

    def append(self, kind: str, **fields: Any) -> Record:
        """Write one event and force the event to the disk.

        Args:
            kind: What happened, e.g. ``epoch``.
            fields: JSON values; a NaN is refused.

        Returns:
            The record as a later reading gives it.

        Raises:
            ValueError: If a field is NaN or infinite, or the kind of record needs another field.
            OSError: If the disk is full; the journal then ends as before, or with a torn record.
            JournalGoneError: If the journal is not, or no longer, the file of its name.
        """
        self._check_place()
        elapsed = round(time.monotonic() - self._opened, 3)
        number: dict[str, Any] = {"n": 0, "format": FORMAT} if self._count == 0 else {"n": self._count}
        body = _encode({**number, "time": round(time.time(), 3), "elapsed": elapsed, "kind": kind, **fields})
        # Made before the line is written, so that no journal holds a record that cannot be read.
        line = _seal(body)
        record = read_record(line)
        try:
            self._write(line)
        except OSError:
            # Part of a record may be in the file, and no record may follow it, even if the disk has room again.
            self._file.truncate(self._size)
            raise
        self._count, self._size = self._count + 1, self._size + len(line)
        return record

    def _check_place(self) -> None:
        try:
            is_there = os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise JournalGoneError(
                f"{self._path}: was removed, moved or replaced while this process wrote it, so this process stops; "
                f"the former file has all earlier records"
            )

    def _write(self, line: bytes) -> None:
        # A disk with room for a part of the line writes that part and reports the error at the next write.
        while line:
            line = line[self._file.write(line) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def refuse_taken(file: IO[Any], path: Path) -> None:
    """Lock a journal until its file is closed.

    Raises:
        AlreadyRunningError: If another process writes the journal.
    """
    if not take(file):
        raise AlreadyRunningError(
            f"{path}: another process writes it, whatever the lock file beside it says; "
            f"end that process, or wait for its end"
        )


def read_journal(path: Path) -> list[Record]:
    """Read a journal that another process may be writing; a torn last record is left out.

    Raises:
        JournalError: If there is no journal, any record but the last is damaged, or a newer version wrote the journal.
    """
    if not path.is_file():
        raise JournalError(f"{path}: no such journal; `orchestrator search` makes one")
    return _parse(path.read_bytes(), path)[0]


def torn_bytes(path: Path) -> int:
    """Return how many bytes of an incomplete last record a journal ends with.

    Raises:
        JournalError: If any record but the last is damaged.
    """
    content = path.read_bytes()
    return len(content) - _parse(content, path)[1]


def is_damaged(content: bytes, whole: int) -> bool:
    """Say whether a damaged record, not an incomplete record, follows the whole records of a journal."""
    return whole < len(content) and content.endswith(b"\n")


def copy_name(path: Path, content: bytes) -> Path:
    """Return the path of the copy of a damaged journal; equal contents have the same path."""
    return path.with_name(f"{path.name}.damaged-{hashlib.sha256(content).hexdigest()[:8]}")


def keep_copy(path: Path, content: bytes) -> Path:
    """Copy a damaged journal, and return the path of the copy."""
    copy = copy_name(path, content)
    write_whole(copy, content)
    return copy


def read_lines(path: Path) -> list[Line | None]:
    """Return the values of all lines, even where their numbers are out of order; ``None`` for a damaged line.

    Raises:
        JournalFormatError: If this version does not read the journal.
    """
    content = path.read_bytes().splitlines(keepends=True)
    lines: list[Line | None] = [read_values(line) if _is_whole(memoryview(line)) else None for line in content]
    if lines and lines[0] is not None:
        _check_format(lines[0], path)
    return lines


def rewrite(path: Path, lines: Sequence[Line]) -> None:
    """Replace a journal by these lines, which are numbered anew."""
    write_whole(path, b"".join(_seal(_encode({**line, "n": number})) for number, line in enumerate(lines)))


def _encode(line: Line) -> str:
    # Not by msgspec, which writes a NaN as null.
    return json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=True, default=msgspec.to_builtins)


def _seal(body: str) -> bytes:
    """Return the line of an encoded record, with its checksum before the closing brace."""
    content = body.encode()
    return b'%b%b%08x"}\n' % (content[:-1], _CHECKSUM, zlib.crc32(content))


def _check_format(first: Line, path: Path) -> None:
    """Refuse a journal that this version might misread: in a newer format, or of population-based training."""
    scheduler = (first.get("experiment") or {}).get("scheduler") or {}
    if scheduler.get("name") == "pbt":
        raise JournalFormatError(
            f"{path}: holds population-based training (scheduler pbt), which this version does not have; "
            f"the version that wrote it does"
        )
    written = first.get("format", 1)
    if type(written) is not int or written < 1:
        raise JournalFormatError(
            f"{path}: line 1: format must be a whole number from 1 on, got {written!r:.60}; "
            f"restore the file from a backup"
        )
    if written > FORMAT:
        raise JournalFormatError(
            f"{path}: has format {written}, and this version reads formats up to {FORMAT}; "
            f"use the version that wrote it, or a newer version"
        )


def whole_records(content: bytes, path: Path, known: int = 0) -> tuple[list[Record], int]:
    """Return the whole records at the beginning of a piece of a journal, and how many bytes they take.

    Args:
        content: Bytes after the first ``known`` records.
        path: Path of the journal, for messages.
        known: Number of records before the piece, >= 0.

    Raises:
        JournalError: If a whole line is no record of its kind, or a newer version wrote the journal.
    """
    records: list[Record] = []
    # Views of one line at a time: copies of all lines would take longer than all checksums.
    whole, view = 0, memoryview(content)
    while end := content.find(b"\n", whole) + 1:
        line, number = view[whole:end], known + len(records)
        if not _is_whole(line):
            break
        try:
            if number == 0:
                _check_format(read_values(line), path)
            record = read_record(line)
        except RecordError as error:
            raise JournalError(f"{path}: line {number + 1}: {error}; restore the file from a backup") from None
        if record.n != number:
            break
        records.append(record)
        whole = end
    return records, whole


def _is_whole(line: memoryview) -> bool:
    """Say whether a line ends with its checksum."""
    checksum = zlib.crc32(b"}", zlib.crc32(line[:_SEAL_FROM]))
    return line[_SEAL_FROM:] == b'%b%08x"}\n' % (_CHECKSUM, checksum)


def _parse(content: bytes, path: Path) -> tuple[list[Record], int]:
    """Return the whole records of a journal and how many bytes they take."""
    records, whole = whole_records(content, path)
    if b"\n" in content[whole:].rstrip(b"\n"):
        raise JournalError(
            f"{path}: line {len(records) + 1}: damaged, and records follow it; restore the file from a backup, or see "
            f"by `orchestrator doctor {path.parent}` what can be kept without it"
        )
    return records, whole
