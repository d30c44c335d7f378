"""Issues the trials of population-based training, again after each move (see ``source.TrialSource``).

A trial that waits for the others has no actor. When the last trial of the study waits or has ended, the population
moves, and each trial is issued again under its own id, with the checkpoint from which the trial resumes.
"""

from collections import deque

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.studies.pbt import plan_moves, waits
from orchestrator.studies.study import Studies


class Populations:
    """A source of trials whose studies are populations: all trials are created before any trial has a value."""

    def __init__(self, experiment: Experiment, studies: Studies, ledger: Ledger, checkpoints: Checkpoints) -> None:
        """Create the trials that the journal lacks, and copy the checkpoints that a former process did not copy."""
        self._rules, self._cells = experiment.scheduler, experiment.cells()
        self._studies, self._ledger, self._checkpoints = studies, ledger, checkpoints
        running = list(iter(studies.next, None))
        self._ready = deque(trial for trial in running if not self._waits(trial))
        for trial in running:
            self._adopt(trial)

    @property
    def outstanding(self) -> int:
        """Number of trials that are to be issued, now or after their population has moved."""
        return len(self._ready) + sum(len(self._waiting(cell)) for cell in self._cells)

    def next(self) -> Trial | None:
        """Return a trial that may train further; ``None`` while all trials wait, or after the last trial."""
        if not self._ready:
            for cell in self._cells:
                self._move(cell)
        return self._ready.popleft() if self._ready else None

    def observe(self, trial: Trial) -> None:
        """Let Optuna see a trial's new epochs and its end."""
        self._studies.observe(trial)

    def _move(self, cell: Cell) -> None:
        """Move a population if all its trials wait."""
        waiting = self._waiting(cell)
        living = [trial for trial in self._ledger.history.study(cell.name) if not trial.has_ended]
        if not waiting or len(waiting) < len(living):
            return
        self._ledger.move(cell.name, waiting[0].last_epoch, plan_moves(cell, self._rules, waiting))
        for trial in waiting:
            self._adopt(trial)
        self._ready.extend(waiting)

    def _adopt(self, trial: Trial) -> None:
        """Copy the checkpoint of a trial's newest move, if neither the trial nor its source has trained on since.

        No trial is issued before all checkpoints have been copied, so a kill at any moment loses no move.
        """
        move = trial.moves[-1] if trial.moves else None
        trials = self._ledger.history.trials
        if move is not None and trial.last_epoch == trials[move.source].last_epoch == move.epoch:
            self._checkpoints.adopt(trial.id, move.source, move.epoch)

    def _waiting(self, cell: Cell) -> list[Trial]:
        return [trial for trial in self._ledger.history.study(cell.name) if self._waits(trial)]

    def _waits(self, trial: Trial) -> bool:
        return waits(trial, self._rules, self._ledger.history)
