"""The only writer of a journal, and the history so far: no code acts on an event before the event is on the disk.

Epochs after which their trials just go on come in hundreds at once, and a disk may need 10 ms for each. Of those that
come within ``LAG_SECONDS`` only the kernel has the record, until the next force. Every other record forces all before
it. A kill loses none of them. A machine that loses its power trains such an epoch again, to the same numbers.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from msgspec import structs

from orchestrator.journal.history import History
from orchestrator.journal.journal import FORMAT, JournalError, JournalReader, keep_copy, seal
from orchestrator.journal.lock import AlreadyRunningError, take
from orchestrator.journal.records import CheckpointDamaged, EpochEnded, Record, TrialCreated, TrialEnded, read_record
from orchestrator.journal.trial import Stage, Trial, TrialState
from trainables.config import TrialConfig
from trainables.errors import UserError

_log = logging.getLogger(__name__)

LAG_SECONDS = 0.25
"""For so long after a force of the disk the record of an epoch after which its trial goes on need not be forced."""


class JournalGoneError(JournalError):
    """A journal that was removed, moved or replaced while this process wrote it."""

    exit_code = 1


class LeftBehindError(RuntimeError):
    """A thread that the process no longer waits for tried to write a record."""


class Ledger:
    """The only writer of an experiment's journal.

    The process locks the journal itself, because a person may remove the lock file (see ``lock.py``) in the belief that
    its process is dead.

    Attributes:
        past: The records that the journal held when it was opened.
        history: State of the experiment after the newest record.
        listeners: Functions that are called with each new record, in the thread that wrote it; they must return soon.
        problem: Why a record could not be written; no record is written afterwards.
    """

    def __init__(self, path: Path) -> None:
        """Open or create a journal, read it, and cut off a torn last record; before a damaged one, the file is copied.

        Raises:
            JournalError: If any record but the last is damaged, or a newer version wrote the journal.
            AlreadyRunningError: If another process writes it.
        """
        self.path = path
        # Unbuffered: the kernel has each write at once, so a kill of this process loses nothing.
        self._file = path.open("ab", buffering=0)
        try:
            refuse_taken(self._file, path)
            reader = JournalReader(path)
            self.past = tuple(reader.read_on())
        except UserError:
            self._file.close()
            raise
        except OSError as error:
            self._file.close()
            # A read that fails does not say of which file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        if reader.rest.endswith(b"\n"):
            said = "%s: the last line, %d, is damaged and was cut off; its event happens again; the file as it was: %s"
            _log.warning(said, path, reader.count + 1, keep_copy(path))
        self._count, self._size = reader.count, reader.size
        self._opened = time.monotonic()
        self._file.truncate(self._size)
        self._force()
        self.history = History.of(self.past)
        self.listeners: list[Callable[[Record], None]] = []
        self.problem: OSError | JournalGoneError | None = None
        self._writer: int | None = None

    def append(self, event: Record) -> None:
        """Write an event, force it to the disk (see the module), then update the history and call the listeners.

        A force costs 0.3 ms on a local disk. The event gets its place and its date in the journal.

        Raises:
            ValueError: If a field is NaN or infinite, or has a value that is not allowed.
            OSError: If the disk is full, or was full at the previous record; the journal has whole records alone.
            JournalGoneError: If the journal was removed, moved or replaced.
            LeftBehindError: If another thread has taken over.
        """
        if self.problem is not None:
            raise self.problem
        if self._writer not in (None, threading.get_ident()):
            raise LeftBehindError(f"{self.path}: written by the main thread alone from now on")
        line = seal(
            structs.replace(
                event,
                n=self._count,
                format=FORMAT if self._count == 0 else None,
                time=round(time.time(), 3),
                elapsed=round(time.monotonic() - self._opened, 3),
            ).to_dict()
        )
        # As a later reading gives it; read before it is written, so that no journal holds what cannot be read.
        record = read_record(line)
        try:
            self._check_place()
            self._write(line, isinstance(record, EpochEnded) and record.state is TrialState.RUNNING)
        except OSError as error:
            # Kept here, because Ray would pass the exception on as text.
            self.problem = OSError(error.errno, error.strerror, str(self.path))
            raise self.problem from None
        self._count, self._size = self._count + 1, self._size + len(line)
        self.history.apply(record)
        for listener in self.listeners:
            listener(record)

    def _check_place(self) -> None:
        try:
            is_there = os.path.samestat(self.path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            self.problem = JournalGoneError(
                f"{self.path}: was removed, moved or replaced while this process wrote it, so this process stops; "
                f"the former file has all earlier records"
            )
            raise self.problem

    def _write(self, line: bytes, may_lag: bool) -> None:
        """Write a line and force it to the disk; the part of a line that fits on a full disk is cut off again."""
        try:
            # A disk with room for a part of the line writes that part and reports the error at the next write.
            while line:
                line = line[self._file.write(line) :]
            if not may_lag or time.monotonic() >= self._forced + LAG_SECONDS:
                self._force()
        except OSError:
            self._file.truncate(self._size)
            raise

    def _force(self) -> None:
        os.fsync(self._file.fileno())
        self._forced = time.monotonic()

    def take_over(self) -> None:
        """Let only this thread write from now on, so that errors of a dead Ray in other threads fail no trial."""
        self._writer = threading.get_ident()

    def create(
        self,
        study: str,
        number: int,
        params: Mapping[str, Any],
        config: TrialConfig,
        candidate: str | None = None,
        search: int | None = None,
    ) -> Trial:
        """Record a new trial of a search, and return it; see ``TrialCreated``."""
        return self.begin(
            TrialCreated(
                trial=f"{study}-{number:04d}",
                stage=Stage.SEARCH,
                candidate=candidate,
                study=study,
                number=number,
                params=params,
                config=config.to_dict(),
                search=search,
            )
        )

    def begin(self, planned: TrialCreated) -> Trial:
        """Record a planned trial, and return it."""
        self.append(planned)
        return self.history.trials[planned.trial]

    def report(
        self, trial: Trial, epoch: int, metrics: Mapping[str, float], state: TrialState, not_replayed: str | None = None
    ) -> None:
        """Record an epoch together with the trial's state, so that no crash can come between epoch and state.

        An epoch that is already in the journal, or of an ended trial, is dropped: resumed trials repeat a report.
        """
        if trial.state is TrialState.RUNNING and epoch not in trial.epochs:
            news = None if not_replayed == trial.not_replayed else not_replayed
            self.append(EpochEnded(trial=trial.id, epoch=epoch, metrics=dict(metrics), state=state, not_replayed=news))

    def end(self, trial: Trial, state: TrialState, error: str) -> None:
        """Record that a trial diverged or failed; only the first end of a trial is recorded."""
        if trial.state is TrialState.RUNNING:
            self.append(TrialEnded(trial=trial.id, state=state, error=error))

    def note_damage(self, trial: Trial, damage: str) -> None:
        """Record, once, that a checkpoint cannot be used any more."""
        if damage not in trial.damage:
            self.append(CheckpointDamaged(trial=trial.id, damage=damage))

    def close(self) -> None:
        """Close the journal."""
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
