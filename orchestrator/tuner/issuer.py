"""What a stage runs, handed to Ray trial by trial: Ray's searcher interface over a source of ours.

A stage is the search itself, or what is trained again after it. Ray asks for its next trial here and is told here how
each went; which trials there are, and in which order, is the source's business alone.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from ray.tune.search import Searcher

from orchestrator.journal.trial import Trial
from orchestrator.studies.source import TrialSource
from orchestrator.tuner.failures import MAX_FAILURES
from orchestrator.tuner.not_pickled import NotPickled


class Issuer(NotPickled, Searcher):
    """Issues the trials of a source, some at a time.

    A trial that the journal holds as running is issued again under its own id, and finds its checkpoint itself.
    """

    def __init__(
        self,
        source: TrialSource,
        at_a_time: int | None = None,
        halvings: int = 0,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """Begin with the first trial.

        Args:
            source: Of the trials.
            at_a_time: How many may run at once; ``None`` is as many as fit.
            halvings: How often that was halved already.
            has_room: Whether there is room for a trial beside others.
        """
        super().__init__()
        self._source, self._at_a_time, self._halvings = source, at_a_time, halvings
        self._has_room = has_room
        self._live: dict[str, Trial] = {}
        self._again: deque[Trial] = deque()
        self._made_way: frozenset[str] = frozenset()

    def suggest(self, trial_id: str) -> Any:
        """Return what Ray's trial of that id is to run; ``FINISHED`` after the last."""
        if self._at_a_time is not None and len(self._live) >= self._at_a_time:
            return None
        if self._live and not self._has_room():
            return None
        trial = self._again.popleft() if self._again else self._source.next()
        if trial is None:
            # A trial that runs may have to be tried again, or show that its study is worth going on with.
            return None if self._live or self._source.outstanding else str(Searcher.FINISHED)
        self._live[trial_id] = trial
        # Those that are fused fail together: each has its last chance alone, lest it pays for what another one does.
        alone = trial.setbacks >= MAX_FAILURES
        # As text, because Ray copies and searches a nested config for values to resolve.
        return {"trial": trial.id, "config": json.dumps(trial.config), "halvings": self._halvings, "alone": alone}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Let the source see the epoch, which the scheduler has put in the journal by now."""
        self._source.observe(self._live[trial_id])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Let the source know the end; of an error it hears from ``TrialCallback``, which Ray tells after this."""
        trial = self._live.pop(trial_id)
        if not error:
            self._source.observe(trial)

    def issue_again(self, trial: Trial) -> None:
        """Issue a trial that failed before any other, once there is room for it."""
        self._again.append(trial)

    def run_fewer(self, trial_id: str) -> int | None:
        """Halve the number of trials at a time after one of them failed, and return it.

        ``None`` where it ran alone, or beside one for which that was done: trials that fail together, as those of one
        stack or one GPU do, count once.

        Args:
            trial_id: Ray's, of the trial that failed; each attempt has its own.
        """
        running = len(self._live) + 1
        if running == 1 or trial_id in self._made_way:
            return None
        self._made_way = frozenset({trial_id, *self._live})
        self._at_a_time = running // 2
        self._halvings += 1
        return self._at_a_time

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: the journal holds all of it."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing: the source reads the journal."""
