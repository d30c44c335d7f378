"""The only writer of a journal, and the history so far: no code acts on an event before the event is on the disk."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.journal import Journal, JournalGoneError
from orchestrator.journal.records import (
    CheckpointDamaged,
    EpochEnded,
    Record,
    TrialCreated,
    TrialEnded,
)
from orchestrator.journal.trial import Stage, Trial, TrialState
from trainables.config import TrialConfig


@dataclass(frozen=True)
class PlannedTrial:
    """A trial to run.

    Attributes:
        id: Id of the trial, equal in every start.
        study: Study to which the trial belongs.
        number: Position in its stage of the study, from 0.
        config: All settings that decide the trial's outcome.
        params: Hyper-parameters that tables show, by the names of a search space.
        candidate: Id of the trial of the search that this trial repeats with another seed; ``None`` for no repeat.
    """

    id: str
    study: str
    number: int
    config: TrialConfig
    params: Mapping[str, Any] = field(default_factory=dict)
    candidate: str | None = None


Listener = Callable[[Record], None]


class LeftBehindError(RuntimeError):
    """A thread that the process no longer waits for tried to write a record."""


class Ledger:
    """The only writer of an experiment's journal.

    Attributes:
        history: State of the experiment after the newest record.
        listeners: Functions that are called with each new record, in the thread that wrote it; they must return soon.
        problem: Why a record could not be written; no record is written afterwards.
    """

    def __init__(self, path: Path) -> None:
        """Open the journal and read its records.

        Raises:
            JournalError: If the journal is damaged.
            AlreadyRunningError: If another process writes the journal.
        """
        self.path = path
        self._journal = Journal(path)
        self.past = tuple(self._journal.records)
        self.history = History.of(self.past)
        self.listeners: list[Listener] = []
        self.problem: OSError | JournalGoneError | None = None
        self._writer: int | None = None

    def append(self, event: Record) -> None:
        """Write an event, then update the history and call the listeners.

        Args:
            event: What happened.

        Raises:
            OSError: If the disk is full, or was full at the previous record.
            JournalGoneError: If the journal was removed, moved or replaced.
            LeftBehindError: If another thread has taken over.
        """
        if self.problem is not None:
            raise self.problem
        if self._writer not in (None, threading.get_ident()):
            raise LeftBehindError(f"{self.path}: written by the main thread alone from now on")
        try:
            record = self._journal.append(event.kind, **event.event())
        except OSError as error:
            # Kept here, because Ray would pass the exception on as text.
            self.problem = OSError(error.errno, error.strerror, str(self.path))
            raise self.problem from None
        except JournalGoneError as error:
            self.problem = error
            raise
        self.history.apply(record)
        for listener in self.listeners:
            listener(record)

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
    ) -> Trial:
        """Record a new trial of the search under an id made of its study and number, and return it.

        Args:
            study: Study to which the trial belongs.
            number: Position in its study, from 0.
            params: Suggestion of the searcher.
            config: Settings with which the trial is trained.
            candidate: Id of the first trial with the same setting, where the trial is a replicate.
        """
        created = TrialCreated(
            trial=f"{study}-{number:04d}",
            stage=Stage.SEARCH,
            candidate=candidate,
            study=study,
            number=number,
            params=params,
            config=config.to_dict(),
        )
        return self._create(created)

    def plan(self, planned: "PlannedTrial", stage: Stage) -> Trial:
        """Record a planned trial, and return it."""
        created = TrialCreated(
            trial=planned.id,
            stage=stage,
            candidate=planned.candidate,
            study=planned.study,
            number=planned.number,
            params=planned.params,
            config=planned.config.to_dict(),
        )
        return self._create(created)

    def report(self, trial: Trial, epoch: int, metrics: Mapping[str, float], state: TrialState) -> None:
        """Record an epoch together with the trial's state, so that no crash can come between epoch and state.

        An epoch that is already in the journal, or of an ended trial, is dropped: resumed trials repeat a report.
        """
        if trial.state is TrialState.RUNNING and epoch not in trial.epochs:
            self.append(EpochEnded(trial=trial.id, epoch=epoch, metrics=dict(metrics), state=state))

    def end(self, trial: Trial, state: TrialState, error: str) -> None:
        """Record that a trial diverged or failed; only the first end of a trial is recorded."""
        if trial.state is TrialState.RUNNING:
            self.append(TrialEnded(trial=trial.id, state=state, error=error))

    def note_damage(self, trial: Trial, damage: str) -> None:
        """Record, once, that a checkpoint cannot be used any more."""
        if damage not in trial.damage:
            self.append(CheckpointDamaged(trial=trial.id, damage=damage))

    def _create(self, created: TrialCreated) -> Trial:
        self.append(created)
        return self.history.trials[created.trial]

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()
