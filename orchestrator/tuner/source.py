"""Where the tuner gets its trials: the interface, and the source of planned trials.

Planned trials are trainings with fresh seeds that confirm a winner or repeat a baseline. Optuna never sees them, and
nothing stops them early.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import TrialCreated
from orchestrator.journal.trial import Trial


class TrialSource(Protocol):
    """The trials of a stage, in the order in which they are to start."""

    @property
    def outstanding(self) -> int:
        """Number of trials that are still to be issued."""
        ...

    def next(self) -> Trial | None:
        """Return the next trial, which is already in the journal; ``None`` if no trial is to start now."""
        ...

    def observe(self, trial: Trial) -> None:
        """Note that a trial has a new epoch, or has ended."""
        ...


class PlannedTrials:
    """A source of trials (see ``source.TrialSource``) that issues the trials of a plan, in the order of the plan.

    A plan may grow as trials end: when all its trials have been issued, the plan is read again. Trials that have ended
    according to the journal are left out; a trial that is running according to the journal is issued again.
    """

    def __init__(self, plan: Callable[[], Iterable[TrialCreated]], ledger: Ledger) -> None:
        """Read the plan, which returns all trials that are known by now, issued trials included."""
        self._plan, self._ledger = plan, ledger
        self._issued: set[str] = set()
        self._left = self._ask()
        self._something_ended = False

    @property
    def outstanding(self) -> int:
        """Number of known trials that are still to be issued."""
        return len(self._left)

    def next(self) -> Trial | None:
        """Return the next trial of the plan; ``None`` where none is left, or none before another trial has ended."""
        if not self._left and self._something_ended:
            self._left, self._something_ended = self._ask(), False
        if not self._left:
            return None
        planned = self._left.popleft()
        self._issued.add(planned.trial)
        known = self._ledger.history.trials.get(planned.trial)
        return known or self._ledger.begin(planned)

    def observe(self, trial: Trial) -> None:
        """Note that the plan may have grown, if the trial has ended."""
        self._something_ended |= trial.has_ended

    def _ask(self) -> deque[TrialCreated]:
        trials = self._ledger.history.trials
        due = (record for record in self._plan() if record.trial not in trials or not trials[record.trial].has_ended)
        return deque(record for record in due if record.trial not in self._issued)
