"""Reads a journal: at once, or each record as soon as the process that writes the journal has written it.

Reads the state of an experiment from its directory.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, read_journal, whole_records
from orchestrator.journal.record import Record

PIECE = 8 * 2**20
"""Bytes that are read at a time, so that a long journal is never in the memory as a whole."""


HEAD = 512
"""Bytes at the beginning that identify a journal: they hold the time of its first start."""


class JournalReplacedError(JournalError):
    """The journal was replaced by another file, or has become shorter than the part that was read."""


class JournalReader:
    """Reads the records that were added since the last reading.

    The reader leaves an incomplete last record, which is being written or was torn by a kill, for the next reading.

    Args:
        path: Path of the journal, which may not exist yet.

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
        """Say, by one system call, whether the file has changed since the last reading."""
        status = self._status()
        return status is not None and (_identity(status) != self._file or _extent(status) != self._looked_at)

    def read_on(self) -> Iterator[Record]:
        """Yield the new records, oldest first; none where there is no journal yet.

        Raises:
            JournalReplacedError: If the journal is another file than before, or shorter than the part that was read; a
                new reader can begin at its beginning.
            JournalError: If a damaged record is followed by others.
        """
        status = self._status()
        if status is None:
            return
        with self.path.open("rb") as file:
            head = file.read(HEAD)
            # Compare contents as well, because a file system may give a new file the number of a removed file.
            is_known = self._file in (None, _identity(status)) and head.startswith(self._head)
            if not is_known or status.st_size < self._offset:
                raise JournalReplacedError(f"{self.path}: was replaced or cut while it was read")
            self._file, self._looked_at = _identity(status), _extent(status)
            file.seek(self._offset)
            rest = b""
            while piece := file.read(PIECE):
                unread = rest + piece
                records, whole = whole_records(unread, self.path, self.count)
                rest = unread[whole:]
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
    # The time too, because a torn record can be replaced by a record of equal length.
    return status.st_size, status.st_mtime_ns


def read_history(directory: Path) -> History:
    """Return the state of an experiment according to its journal, which another process may be writing.

    Args:
        directory: The experiment's directory.

    Raises:
        JournalError: If there is no journal, any record but the last is damaged, or a newer version wrote the journal.
    """
    path = directory / JOURNAL_FILE
    return History.of(read_journal(path), str(path))
