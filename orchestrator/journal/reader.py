"""A journal that is read on while another process writes it: each record once, as soon as the record is whole."""

import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.journal.journal import JournalError, whole_records
from orchestrator.journal.record import Record

PIECE = 8 * 2**20
"""Bytes that are read at a time: so much of a long journal is in the memory at once."""


HEAD = 512
"""Bytes by which a journal is known: its first record begins with the time of its first start."""


class JournalReplacedError(JournalError):
    """Another file has come into the place of the journal, or the journal has become shorter than what was read."""


class JournalReader:
    """Reads the records that a journal has got since the last time.

    A record that is being written, or that a kill has torn, is not whole: the reader waits for a whole record in its
    place.

    Args:
        path: Of the journal, which need not be there yet.

    Attributes:
        count: Records read so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._offset = 0
        self._head = b""
        self._file: tuple[int, int] | None = None
        self._looked_at = (0, 0)

    def has_news(self) -> bool:
        """Say, for the price of one system call, whether the file has changed since the last reading."""
        status = self._status()
        return status is not None and (_identity(status) != self._file or _extent(status) != self._looked_at)

    def read_on(self) -> Iterator[Record]:
        """Yield the new records, oldest first; nothing where there is no journal yet.

        Raises:
            JournalReplacedError: If the journal is another file than before, or shorter than what was read of it; a
                new reader reads it from its beginning.
            JournalError: If a damaged record is followed by others.
        """
        status = self._status()
        if status is None:
            return
        with self.path.open("rb") as file:
            head = file.read(HEAD)
            # By its content, too, because a file system gives the number of a file that was removed to the next one.
            is_known = self._file in (None, _identity(status)) and head.startswith(self._head)
            if not is_known or status.st_size < self._offset:
                raise JournalReplacedError(f"{self.path}: was replaced or cut while it was read")
            self._file, self._looked_at = _identity(status), _extent(status)
            file.seek(self._offset)
            rest = b""
            while piece := file.read(PIECE):
                records, whole = whole_records(rest + piece, self.path, self.count)
                rest = (rest + piece)[whole:]
                self._offset, self.count = self._offset + whole, self.count + len(records)
                self._head = head[: self._offset]
                yield from records
                if b"\n" in rest.rstrip(b"\n"):
                    raise JournalError(
                        f"{self.path}: line {self.count + 1} is damaged; "
                        f"`orchestrator doctor {self.path.parent}` says what can be kept"
                    )

    def _status(self) -> os.stat_result | None:
        try:
            return self.path.stat()
        except FileNotFoundError:
            return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _extent(status: os.stat_result) -> tuple[int, int]:
    # With the time, because a record that was torn can be replaced by a record of the same length.
    return status.st_size, status.st_mtime_ns
