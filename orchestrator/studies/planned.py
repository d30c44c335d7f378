"""Trials that are known beforehand: what is trained again with fresh seeds, to confirm a winner or to watch a baseline.

Optuna never sees them, and nothing stops them early.
"""

from collections import deque
from collections.abc import Iterable

from orchestrator.journal.ledger import Ledger, PlannedTrial
from orchestrator.journal.trial import Stage, Trial


class PlannedTrials:
    """A source of trials (see ``source.TrialSource``) that issues a list, in its order.

    Those that the journal holds as ended are left out; one that it holds as running is issued again under its id.
    """

    def __init__(self, planned: Iterable[PlannedTrial], stage: Stage, ledger: Ledger) -> None:
        self._stage, self._ledger = stage, ledger
        trials = ledger.history.trials
        self._left = deque(one for one in planned if one.id not in trials or not trials[one.id].has_ended)

    @property
    def outstanding(self) -> int:
        """How many trials are still to be issued."""
        return len(self._left)

    def next(self) -> Trial | None:
        """Return the next of the list; ``None`` after the last."""
        if not self._left:
            return None
        planned = self._left.popleft()
        known = self._ledger.history.trials.get(planned.id)
        return known or self._ledger.plan(planned, self._stage)

    def observe(self, trial: Trial) -> None:
        """Learn nothing: what comes next does not depend on how others went."""
