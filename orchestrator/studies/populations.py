"""The trials of population-based training, issued stretch by stretch (see ``source.TrialSource``).

A trial that waits for the others has no actor; when the last of its study has come, or ended, the population moves, and
each trial is issued again under its own id, where it finds the checkpoint it is to go on from.
"""

from collections import deque

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.studies.pbt import plan_moves, waits
from orchestrator.studies.study import Studies


class Populations:
    """A source of trials whose studies are populations: all are created at once, before any has a value."""

    def __init__(self, experiment: Experiment, studies: Studies, ledger: Ledger, checkpoints: Checkpoints) -> None:
        """Create what the journal does not hold yet, and finish what a former process was about to copy."""
        self._rules, self._cells = experiment.scheduler, experiment.cells()
        self._studies, self._ledger, self._checkpoints = studies, ledger, checkpoints
        running = list(iter(studies.next, None))
        self._ready = deque(trial for trial in running if not self._waits(trial))
        for trial in running:
            self._adopt(trial)

    @property
    def outstanding(self) -> int:
        """How many trials are to be issued, now or when the others of their study have come."""
        return len(self._ready) + sum(len(self._waiting(cell)) for cell in self._cells)

    def next(self) -> Trial | None:
        """Return a trial that may train on; ``None`` while all wait for others, or after the last."""
        if not self._ready:
            for cell in self._cells:
                self._move(cell)
        return self._ready.popleft() if self._ready else None

    def observe(self, trial: Trial) -> None:
        """Let Optuna see a trial's new epochs and its end."""
        self._studies.observe(trial)

    def _move(self, cell: Cell) -> None:
        """Let a population go on whose trials all wait."""
        waiting = self._waiting(cell)
        living = [trial for trial in self._ledger.history.study(cell.name) if not trial.has_ended]
        if not waiting or len(waiting) < len(living):
            return
        self._ledger.move(cell.name, waiting[0].last_epoch, plan_moves(cell, self._rules, waiting))
        for trial in waiting:
            self._adopt(trial)
        self._ready.extend(waiting)

    def _adopt(self, trial: Trial) -> None:
        """Copy the checkpoint of a trial's newest move, if neither of the two has trained on since.

        None is issued before all have been copied, so that in a later process it is as if nothing had come in between.
        """
        move = trial.moves[-1] if trial.moves else None
        trials = self._ledger.history.trials
        if move is not None and trial.last_epoch == trials[move.source].last_epoch == move.epoch:
            self._checkpoints.adopt(trial.id, move.source, move.epoch)

    def _waiting(self, cell: Cell) -> list[Trial]:
        return [trial for trial in self._ledger.history.study(cell.name) if self._waits(trial)]

    def _waits(self, trial: Trial) -> bool:
        return waits(trial, self._rules, self._ledger.history)
