"""When a search ends although trials are left: hours, GPU hours, a target, a plateau; all of it read from the journal.

A limit of hours or a target ends the search at once; what runs then keeps its checkpoints and its state ``running``, so
that the same command with a larger budget goes on with it. A plateau holds back a study's next trials; those that run
may still find something better, and then it goes on.
"""

import time

from orchestrator.experiment.sections import Budget
from orchestrator.journal.history import History
from orchestrator.journal.points import Point
from orchestrator.journal.record import Record
from orchestrator.journal.trial import Stage, Trial, TrialState

SPENT = ("hours", "gpu_hours")
"""The limits at which a search ends unfinished; a target or a plateau is an end as good as the last trial's."""


class Meter:
    """Compares a search with its budget; kept up to date by the ledger, asked several times a second.

    Args:
        budget: The limits.
        history: Kept up to date by others, and before this.
    """

    def __init__(self, budget: Budget, history: History) -> None:
        self._budget, self._history = budget, history
        self._counted = 0
        self._best: dict[str, float] = {}
        self._since_best: dict[str, int] = {}
        self._finished: dict[str, list[Trial]] = {}
        self._on_target = False
        self._heard = time.monotonic()

    def listen(self, record: Record) -> None:
        """Take note of when the newest record was written: time goes on without records, too."""
        self._heard = time.monotonic()

    def limit(self) -> str | None:
        """Return which limit is reached: ``hours``, ``gpu_hours`` or ``target``; ``None`` if the search may go on."""
        self._count_ended()
        spending, since = self._history.spending, time.monotonic() - self._heard
        seconds = spending.seconds + since
        gpu_seconds = spending.gpu_seconds + since * spending.gpus
        if self._budget.hours is not None and seconds >= self._budget.hours * 3600:
            return "hours"
        if self._budget.gpu_hours is not None and gpu_seconds >= self._budget.gpu_hours * 3600:
            return "gpu_hours"
        return "target" if self._on_target else None

    def is_closed(self, study: str) -> bool:
        """Say whether a study is on its plateau and gets no new trials."""
        return self._budget.plateau is not None and self.since_best(study) >= self._budget.plateau

    def since_best(self, study: str) -> int:
        """Return how many trials of a study have ended since the newest trial that was better than all before it."""
        self._count_ended()
        return self._since_best.get(study, 0)

    def _count_ended(self) -> None:
        """Take into account the trials of the search that have ended since the last question."""
        ended = self._history.ended
        for trial in ended[self._counted :]:
            if trial.stage is Stage.SEARCH:
                self._note_end(trial)
        self._counted = len(ended)

    def _note_end(self, trial: Trial) -> None:
        value = None
        if trial.state is TrialState.FINISHED:
            # Of several trainings of a setting the mean counts, over those that had finished by then: a later process
            # reads the past of a history that holds all.
            trainings = self._finished.setdefault(trial.candidate or trial.id, [])
            trainings.append(trial)
            point = Point(tuple(trainings))
            value = point.value
        best = self._best.get(trial.study)
        if value is not None and (best is None or value > best):
            self._best[trial.study], self._since_best[trial.study] = value, 0
        elif best is not None:
            self._since_best[trial.study] += 1
        if value is not None and self._budget.target is not None:
            mean = point.mean(self._metric())
            self._on_target |= mean is not None and mean >= self._budget.target

    def _metric(self) -> str:
        """Return the experiment's metric; a study may select its epochs by another."""
        return self._history.metric
