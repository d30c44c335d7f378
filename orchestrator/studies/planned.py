"""Trials that are planned: what is trained again with fresh seeds, to confirm a winner or to watch a baseline.

Optuna never sees them, and nothing stops them early.
"""

from collections import deque
from collections.abc import Callable, Iterable

from orchestrator.journal.ledger import Ledger, PlannedTrial
from orchestrator.journal.trial import Stage, Trial


class PlannedTrials:
    """A source of trials (see ``source.TrialSource``) that issues a plan, in its order.

    A plan may grow as trials end: it is asked for again where all that it held has been issued. Trials that the journal
    holds as ended are left out; one that it holds as running is issued again under its id.
    """

    def __init__(self, plan: Callable[[], Iterable[PlannedTrial]], stage: Stage, ledger: Ledger) -> None:
        """Take in the plan.

        Args:
            plan: Returns all trials that are known by now, those that were issued included.
            stage: Of the trials.
            ledger: Where they are written down.
        """
        self._plan, self._stage, self._ledger = plan, stage, ledger
        self._issued: set[str] = set()
        self._left = self._ask()
        self._something_ended = False

    @property
    def outstanding(self) -> int:
        """How many trials are still to be issued, as far as is known."""
        return len(self._left)

    def next(self) -> Trial | None:
        """Return the next of the plan; ``None`` where there is none, or none before another trial has ended."""
        if not self._left and self._something_ended:
            self._left, self._something_ended = self._ask(), False
        if not self._left:
            return None
        planned = self._left.popleft()
        self._issued.add(planned.id)
        known = self._ledger.history.trials.get(planned.id)
        return known or self._ledger.plan(planned, self._stage)

    def observe(self, trial: Trial) -> None:
        """Note that the plan may have grown, if the trial has ended."""
        self._something_ended |= trial.has_ended

    def _ask(self) -> deque[PlannedTrial]:
        trials = self._ledger.history.trials
        due = (one for one in self._plan() if one.id not in trials or not trials[one.id].has_ended)
        return deque(one for one in due if one.id not in self._issued)
