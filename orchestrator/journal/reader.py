"""Reads a journal: at once, or each record as soon as the process that writes the journal has written it.

A repair of damaged lines (``salvage``) keeps all records that do not build on a damaged line. A trial keeps its
epochs up to a gap, and is trained again from there. A trial whose creation is lost, or whose number is no longer the
next of its study, is dropped with all its records, so that the sampler suggests the trial again. Records of opened
test splits are always kept.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import (
    JournalError,
    Line,
    copy_name,
    keep_copy,
    read_journal,
    read_lines,
    rewrite,
    whole_records,
)
from orchestrator.journal.records import (
    EpochEnded,
    EvaluatedOnTest,
    ExperimentEnded,
    Record,
    TrialCreated,
    TrialRecord,
    parse,
)
from orchestrator.journal.trial import Stage

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


@dataclass(frozen=True)
class Salvage:
    """The records of a damaged journal that can be kept.

    Attributes:
        kept: Lines that are kept, oldest first.
        damaged: Numbers, from 1, of the lines that cannot be read, occur twice, or lack the lines before them.
        lost: Trial, or kind of record -> number of readable records that are dropped.
    """

    path: Path
    kept: Sequence[Line]
    damaged: Sequence[int]
    lost: Counter[str]

    @property
    def statement(self) -> str:
        """The damaged lines and the records that are lost with them, in one line."""
        lines = f"line{'s' if len(self.damaged) > 1 else ''} {', '.join(map(str, self.damaged))}: damaged"
        also = ", ".join(f"{count} of {name}" for name, count in self.lost.items())
        return f"{self.path}: {lines}; later records that need these lines: {also or 'none'}"

    @property
    def way_out(self) -> str:
        """What a repair does, for people."""
        copy = copy_name(self.path, self.path.read_bytes()).name
        return (
            f"restore the file from a backup; or --repair keeps the other {len(self.kept)} records, and the file as it "
            f"is as {copy}: the same command then trains again what is lost"
        )

    def write(self) -> Path:
        """Copy the journal, replace it by the lines that are kept, and return the path of the copy."""
        copy = keep_copy(self.path, self.path.read_bytes())
        rewrite(self.path, self.kept)
        return copy


def salvage(path: Path) -> Salvage:
    """Find out which records of a damaged journal can be kept; nothing is written.

    Raises:
        JournalError: If the description of the experiment is damaged.
    """
    kept: list[Line] = []
    damaged: list[int] = []
    history, lost, broken = History(), Counter[str](), set[str]()
    expected = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line is None or line["n"] < expected:
            damaged.append(number)
            continue
        record = parse(line)
        if record.n > expected and not damaged:
            damaged.append(number)
        expected = record.n + 1
        if not damaged or (history.experiment and _stands(record, history, broken)):
            kept.append(line)
            history.apply(record)
        else:
            lost[line.get("trial", line["kind"])] += 1
    if not history.experiment:
        raise JournalError(f"{path}: the damaged lines are those of the experiment; restore the journal from a backup")
    return Salvage(path, kept, damaged, lost)


def _stands(record: Record, history: History, broken: set[str]) -> bool:
    """Say whether a record after a damaged line can be kept."""
    if isinstance(record, TrialCreated):
        if record.stage is Stage.SEARCH:
            return record.number == len(history.study(record.study))
        return record.candidate is None or record.candidate in history.trials
    if isinstance(record, ExperimentEnded):
        return not history.running()
    return not isinstance(record, TrialRecord) or _trial_stands(record, history, broken)


def _trial_stands(record: TrialRecord, history: History, broken: set[str]) -> bool:
    trial = history.trials.get(record.trial)
    if trial is None or trial.id in broken:
        return False
    if isinstance(record, EpochEnded) and record.epoch != trial.last_epoch + 1:
        broken.add(trial.id)
        return False
    return trial.has_ended is isinstance(record, EvaluatedOnTest)
