"""When a search ends although trials are left.

A limit of hours or a target ends the search at once. Running trials keep their checkpoints and the state ``running``,
so that the same command with a larger budget resumes them. On a plateau a study gets no new trials; if a running
trial still finds a better value, the study continues.
"""

import time

from orchestrator.experiment.sections import Budget
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.records import Record
from orchestrator.journal.trial import Stage, Trial, TrialState

SPENT = ("hours", "gpu_hours")
"""Limits that leave a search unfinished; a search that reaches a target or a plateau counts as finished."""


class BudgetMeter:
    """Compares a search with its budget; the history is updated before this object hears of a record."""

    def __init__(self, budget: Budget, history: History) -> None:
        self._budget, self._history = budget, history
        self._counted = 0
        self._best: dict[str, float] = {}
        self._since_best: dict[str, int] = {}
        self._finished: dict[str, list[Trial]] = {}
        self._on_target = False
        self._heard = time.monotonic()

    def listen(self, record: Record) -> None:
        """Note when the newest record was written, because time also passes between records."""
        self._heard = time.monotonic()

    def limit(self) -> str | None:
        """Return which limit is reached: ``hours``, ``gpu_hours`` or ``target``; ``None`` if none is."""
        self._count_ended()
        spending, since = self._history.spending, time.monotonic() - self._heard
        seconds = spending.searched_seconds + since
        gpu_seconds = spending.searched_gpu_seconds + since * spending.gpus
        if self._budget.hours is not None and seconds >= self._budget.hours * 3600:
            return "hours"
        if self._budget.gpu_hours is not None and gpu_seconds >= self._budget.gpu_hours * 3600:
            return "gpu_hours"
        return "target" if self._on_target else None

    def used(self) -> dict[str, tuple[float, float]]:
        """Return name -> (what is used up to the newest record, the limit) of each limit that is set."""
        history, limits = self._history, self._budget.model_dump()
        searched = history.stage(Stage.SEARCH)
        studies = {trial.study for trial in searched} if self._budget.plateau is not None else set()
        # At each trial's best epoch, which its study may choose by another metric.
        points = [] if self._budget.target is None else points_of(searched)
        means = [point.mean(history.metric) for point in points]
        used = {
            "hours": history.spending.searched_seconds / 3600,
            "gpu_hours": history.spending.searched_gpu_seconds / 3600,
            "target": max((mean for mean in means if mean is not None), default=0.0),
            "plateau": min(map(self.since_best, studies), default=0),
        }
        return {name: (float(value), float(limits[name])) for name, value in used.items() if limits[name] is not None}

    def is_closed(self, study: str) -> bool:
        """Say whether a study is on a plateau and gets no new trials."""
        return self._budget.plateau is not None and self.since_best(study) >= self._budget.plateau

    def since_best(self, study: str) -> int:
        """Return how many trials of a study have ended since its newest best trial."""
        self._count_ended()
        return self._since_best.get(study, 0)

    def _count_ended(self) -> None:
        """Take into account the trials of the search that have ended since the last call."""
        ended = self._history.ended
        for trial in ended[self._counted :]:
            if trial.stage is Stage.SEARCH:
                self._note_end(trial)
        self._counted = len(ended)

    def _note_end(self, trial: Trial) -> None:
        value = None
        if trial.state is TrialState.FINISHED:
            # The mean of a setting's trainings counts, over the trainings that had finished by then. A process that
            # resumes the search goes through past ends with a history that already has later trainings.
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
            # The experiment's metric: a study may select its epochs by another metric.
            mean = point.mean(self._history.metric)
            self._on_target |= mean is not None and mean >= self._budget.target
