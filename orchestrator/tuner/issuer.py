"""Hands the trials of a stage to Ray Tune one by one, through Ray's searcher interface.

A stage is the search itself, or the trainings after it that confirm its best candidates. Ray Tune asks the issuer for
the next trial, and reports each epoch and each end of a trial to the issuer. The ``TrialSource`` alone decides which
trials there are, and in which order they run.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from ray.tune.search import Searcher

from orchestrator.journal.trial import Trial
from orchestrator.tuner.source import TrialSource
from orchestrator.tuner.tune_patches import NotPickled
from trainables.errors import PluginError

MAX_FAILURES = 2
"""Retries that a trial gets without a new epoch; the next failure ends the trial as failed."""


class Issuer(NotPickled, Searcher):
    """Issues the trials of a source, some at a time.

    A trial that the journal holds as running, after a crash say, is issued again under its own id; its actor finds the
    trial's checkpoint.

    Attributes:
        problem: Why the source has no further trial although some are left: the sampler of a plug-in failed. The
            trials that run by then train to their ends.
    """

    def __init__(
        self,
        source: TrialSource,
        at_a_time: int | None = None,
        halvings: int = 0,
        wants_another: Callable[[], bool] = lambda: True,
        announce: Callable[[str], None] = lambda doing: None,
    ) -> None:
        """Begin with the first trial.

        ``at_a_time`` trials may run at once, >= 1; ``None``: as many as the resources allow. For want of memory, it was
        halved ``halvings`` times already. ``wants_another`` returns whether one more trial is to wait for an actor,
        beside the running trials. ``announce`` gets a sentence when the source has failed.
        """
        super().__init__()
        self._source, self._at_a_time, self._halvings = source, at_a_time, halvings
        self._wants_another, self._announce = wants_another, announce
        self._live: dict[str, Trial] = {}
        self._again: deque[Trial] = deque()
        self._halved_for: frozenset[str] = frozenset()
        self.problem: PluginError | None = None

    def suggest(self, trial_id: str) -> Any:
        """Return the config of Ray's trial with this id; ``None``: no trial yet; ``FINISHED``: no trial any more."""
        if self._at_a_time is not None and len(self._live) >= self._at_a_time:
            return None
        if self._live and not self._wants_another():
            return None
        trial = self._again.popleft() if self._again else self._next()
        if trial is None:
            # A running trial may have to be tried again, or find a value that gives its study more trials.
            is_waiting = self._live or (self._source.outstanding and self.problem is None)
            return None if is_waiting else str(Searcher.FINISHED)
        self._live[trial_id] = trial
        # Fused trials fail together, whichever of them is the cause: for its last try each trial runs alone.
        alone = trial.setbacks >= MAX_FAILURES
        # The config is text, because Ray copies a nested config and searches it for values to resolve.
        config = json.dumps(trial.config.to_dict())
        return {"trial": trial.id, "config": config, "halvings": self._halvings, "alone": alone}

    def _next(self) -> Trial | None:
        """Return the next trial of the source; ``None`` if there is none yet, or if the source has failed."""
        if self.problem is not None:
            return None
        try:
            return self._source.next()
        except PluginError as error:
            # The error is raised when the running trials have ended: raised here, it would end them.
            self.problem = error
            self._announce(f"{error}; no further trial begins; the running trials train to their ends")
            return None

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Let the source see the epoch; Ray Tune calls the scheduler first, so the journal has the epoch by now."""
        self._source.observe(self._live[trial_id])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Let the source see that a trial has ended.

        The source hears of a failed trial from ``TrialCallback.on_trial_error``, which Ray Tune calls after this
        method, and which decides whether the trial is tried again.
        """
        trial = self._live.pop(trial_id)
        if not error:
            self._source.observe(trial)

    def issue_again(self, trial: Trial) -> None:
        """Issue a failed trial again, before any new trial, once there is room."""
        self._again.append(trial)

    def run_fewer(self, trial_id: str) -> int | None:
        """Halve the number of trials that run at a time, after one of them failed, and return the new number.

        Trials of one stack or one GPU fail together; such a group of failures halves the number once. Each attempt of a
        trial has an id of its own. The answer is ``None`` if the trial ran alone, or if the number was halved for a
        trial beside it.
        """
        # Ray Tune has called ``on_trial_complete`` before, so the failed trial is not among the live trials any more.
        running = len(self._live) + 1
        if running == 1 or trial_id in self._halved_for:
            return None
        self._halved_for = frozenset({trial_id, *self._live})
        self._at_a_time = running // 2
        self._halvings += 1
        return self._at_a_time

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: the journal holds every trial."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing: the source reads the journal."""
