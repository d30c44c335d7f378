"""The append-only record of all events of an experiment, from which everything is restored after a crash.

Each line is a JSON object. ``n`` is 0, 1, 2 ... without a gap, ``time`` the date, in seconds since the Unix epoch.
``elapsed`` is in seconds since this process opened the journal, whatever the machine's clock does. The line also has
``kind``, the fields of the event, and ``crc``, the CRC-32 of the line up to ``crc``. The first line also has
``format``, the number of the journal's format; a journal without the number has format 1, else equal to format 2.
``ledger.py`` writes the lines. A kill can tear only the last line: a torn line is cut off, and its event happens again.

``records.py`` has the class of each kind of record.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.journal.records import CHECKSUM, Record, RecordError, read_record, read_values
from trainables.errors import UserError
from trainables.files import write_whole

FORMAT = 2
"""Number of the format of new journals, and the highest format that this version reads."""

PIECE = 8 * 2**20
"""Bytes that are read at a time, so that a long journal is never in the memory as a whole."""

HEAD = 512
"""Bytes at the beginning that identify a journal: they hold the time of its first start."""

_CHECKSUM = b',"%b":"' % CHECKSUM.encode()

_SEAL_FROM = -len(_CHECKSUM) - len('00000000"}\n')
"""Position of the checksum in a line, counted from the end."""


class JournalError(UserError):
    """A journal that is missing, damaged in a way that no kill explains, or not of a format that this version reads."""


class JournalReplacedError(JournalError):
    """The journal was replaced by another file, or has become shorter than the part that was read."""


class JournalReader:
    """Reads the records that were added since the last reading.

    The reader leaves an incomplete last record, which is being written or was torn by a kill, for the next reading.

    The journal may not exist yet.

    Attributes:
        count: Records read so far.
        size: Bytes of these records.
        rest: Bytes behind them at the last reading: an incomplete record or, with its newline, a damaged one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = self.size = 0
        self.rest = b""
        self._head = b""
        self._seen: tuple[int, int, int, int] | None = None

    def has_news(self) -> bool:
        """Say, by one system call, whether the file has changed since the last reading."""
        return self._look() not in (None, self._seen)

    def read_on(self) -> Iterator[Record]:
        """Yield the new records, oldest first; none where there is no journal yet.

        Raises:
            JournalReplacedError: If the journal is another file than before, or shorter than the part that was read; a
                new reader can begin at its beginning.
            JournalError: If a damaged record is followed by others, a record lacks something, or a newer version wrote
                the journal.
        """
        seen = self._look()
        if seen is None:
            return
        with self.path.open("rb") as file:
            head = file.read(HEAD)
            # Compare contents as well, because a file system may give a new file the number of a removed file.
            is_known = (self._seen is None or seen[:2] == self._seen[:2]) and head.startswith(self._head)
            if not is_known or seen[2] < self.size:
                raise JournalReplacedError(f"{self.path}: was replaced or cut while it was read")
            file.seek(self.size)
            self.rest = b""
            while piece := file.read(PIECE):
                records = self._take(self.rest + piece)
                self._head = head[: self.size]
                yield from records
                if b"\n" in self.rest.rstrip(b"\n"):
                    raise JournalError(
                        f"{self.path}: line {self.count + 1}: damaged, and records follow it; restore the file from a "
                        f"backup, or see by `orchestrator doctor {self.path.parent}` what can be kept without it"
                    )
            # Last, so that what an error has left unread is news at the next reading.
            self._seen = seen

    def _take(self, content: bytes) -> list[Record]:
        """Return the whole records at the beginning of a piece of the journal, and keep the rest."""
        records: list[Record] = []
        # Views of one line at a time: copies of all lines would take longer than all checksums.
        whole, view = 0, memoryview(content)
        while end := content.find(b"\n", whole) + 1:
            line, number = view[whole:end], self.count + len(records)
            if not is_whole(line):
                break
            try:
                if number == 0:
                    check_format(read_values(line), self.path)
                record = read_record(line)
            except RecordError as error:
                raise JournalError(f"{self.path}: line {number + 1}: {error}; restore the file from a backup") from None
            if record.n != number:
                break
            records.append(record)
            whole = end
        self.count, self.size, self.rest = self.count + len(records), self.size + whole, content[whole:]
        return records

    def _look(self) -> tuple[int, int, int, int] | None:
        """Return device, inode, size and time of change of the journal; ``None`` where there is none."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        # The time too, because a torn record can be replaced by a record of equal length.
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_journal(path: Path) -> list[Record]:
    """Read a journal that another process may be writing; a torn last record is left out.

    Raises:
        JournalError: If there is no journal, any record but the last is damaged, or a newer version wrote the journal.
    """
    if not path.is_file():
        raise JournalError(f"{path}: no such journal; `orchestrator search` makes one")
    return list(JournalReader(path).read_on())


def check_format(first: Mapping[str, Any], path: Path) -> None:
    """Refuse a journal that this version might misread, given the values of its first line."""
    scheduler = (first.get("experiment") or {}).get("scheduler") or {}
    if scheduler.get("name") == "pbt":
        raise JournalError(
            f"{path}: holds population-based training (scheduler pbt), which this version does not have; "
            f"the version that wrote it does, and Ray Tune's own PopulationBasedTraining can train trainables.run_trial"
        )
    written = first.get("format", 1)
    if type(written) is not int or written < 1:
        raise JournalError(
            f"{path}: line 1: format must be a whole number from 1 on, got {written!r:.60}; "
            f"restore the file from a backup"
        )
    if written > FORMAT:
        raise JournalError(
            f"{path}: has format {written}, and this version reads formats up to {FORMAT}; "
            f"use the version that wrote it, or a newer version"
        )


def seal(values: Mapping[str, Any]) -> bytes:
    """Return the line of a record, with its checksum as its last value.

    Raises:
        ValueError: If a value is NaN or infinite.
    """
    # Not by msgspec, which writes a NaN as null.
    body = json.dumps(values, separators=(",", ":"), allow_nan=False, ensure_ascii=True, default=msgspec.to_builtins)
    content = body.encode()
    return b'%b%b%08x"}\n' % (content[:-1], _CHECKSUM, zlib.crc32(content))


def is_whole(line: memoryview) -> bool:
    """Say whether a line ends with its checksum."""
    checksum = zlib.crc32(b"}", zlib.crc32(line[:_SEAL_FROM]))
    return line[_SEAL_FROM:] == b'%b%08x"}\n' % (_CHECKSUM, checksum)


def copy_name(path: Path) -> Path:
    """Return the path of the copy of a damaged journal; equal contents have the same path."""
    return path.with_name(f"{path.name}.damaged-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}")


def keep_copy(path: Path) -> Path:
    """Copy a damaged journal, and return the path of the copy."""
    copy = copy_name(path)
    write_whole(copy, path.read_bytes())
    return copy
