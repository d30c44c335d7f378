"""When a search ends although trials are left, and how long the rest of an experiment takes.

A limit of hours or a target ends the search at once; running trials keep their checkpoints and the state ``running``,
so that the same command with a larger budget resumes them. On a plateau a study gets no new trials; if a running
trial still finds a better value, the study continues.

Work is counted in seconds of epochs as trials report them (``time/epoch_seconds``), because an epoch of one model may
take ten times as long as an epoch of another; where trials report none, each epoch counts as one. The seconds of epochs
that are trained in one second of the clock say how many trials run side by side and how much passes between epochs.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Budget
from orchestrator.journal.history import History
from orchestrator.journal.points import Point
from orchestrator.journal.records import Record
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.text.values import clock_text

SPENT = ("hours", "gpu_hours")
"""Limits that leave a search unfinished; a search that reaches a target or a plateau counts as finished."""


class BudgetMeter:
    """Compares a search with its budget; the ledger keeps it up to date.

    Args:
        budget: The limits.
        history: History of the search, which is updated before this object hears of a record.
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
        """Note when the newest record was written, because time also passes between records."""
        self._heard = time.monotonic()

    def limit(self) -> str | None:
        """Return which limit is reached: ``hours``, ``gpu_hours`` or ``target``; ``None`` if none is."""
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
            # The mean of a setting's trainings counts, over the trainings that had finished by then: a process that
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


PRIOR_SECONDS = 60.0
"""Weight of the rate of earlier starts, in seconds of this start: a resumed experiment has a forecast at once."""

VAL_AND_TEST = 2
"""Evaluations on val that take as long as ranking val and test; used until a model has been evaluated on test."""


@dataclass(frozen=True)
class TimeLeft:
    """Seconds that each stage still takes.

    Attributes:
        stages: Stage (``search``, ``confirm``, ``test``) -> seconds, in the order of the stages; without those of which
            nothing is left.
    """

    stages: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Seconds until the whole experiment has ended."""
        return sum(self.stages.values())

    def __str__(self) -> str:
        """Return the time left of the whole and, where several stages are left, of each."""
        parts = ", ".join(f"{stage} {clock_text(seconds)}" for stage, seconds in self.stages.items())
        return f"ETA {clock_text(self.seconds)}" + (f": {parts}" if len(self.stages) > 1 else "")

    def to_dict(self) -> dict[str, float]:
        """Return the seconds of each stage and of the whole for JSON."""
        return {**self.stages, "total": self.seconds}


class PlannedWork:
    """What an experiment will train and evaluate.

    Args:
        experiment: The experiment. Its studies are made once, because a display asks several times a second.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment, self._cells = experiment, experiment.cells()
        self._confirmations = experiment.most_confirmations()

    def left(self, history: History, rate: float, *, trainings: int | None = None) -> TimeLeft:
        """Return the time left.

        Args:
            history: History of the experiment.
            rate: Seconds of epochs that are trained in a second, > 0.
            trainings: Trainings of the confirmation in all, once they are known: the search is over then.
        """
        lengths, hours, is_confirmed = epoch_lengths(history), self._experiment.budget.hours, self._is_confirmed
        search = 0.0 if trainings is not None else self._search(history, lengths) / rate
        if hours is not None:
            search = min(search, max(0.0, hours * 3600 - history.spending.seconds))
        repeats = history.stage(Stage.CONFIRM)
        planned = sum(self._confirmations.values()) if is_confirmed else 0
        total = planned if trainings is None else trainings
        confirm = self._confirm(history, repeats, total, lengths) / rate
        # Without a confirmation, a winner of each dataset is evaluated on test.
        lost = sum(trial.has_ended and trial.state is not TrialState.FINISHED for trial in repeats)
        models = total - lost if is_confirmed else len(self._experiment.datasets)
        candidates = repeats if is_confirmed else history.stage(Stage.SEARCH)
        evaluated = sum(trial.id in history.tests for trial in candidates)
        test = max(0, models - evaluated) * evaluation_seconds(history)
        stages = {"search": search, "confirm": confirm, "test": test}
        return TimeLeft({stage: seconds for stage, seconds in stages.items() if seconds > 0})

    @property
    def _is_confirmed(self) -> bool:
        return self._experiment.confirm is not None

    def _search(self, history: History, lengths: Mapping[str, float]) -> float:
        trials: dict[str, list[Trial]] = defaultdict(list)
        for trial in history.stage(Stage.SEARCH):
            trials[trial.study].append(trial)
        return sum(
            work_left(
                trials[cell.name], self._experiment.trials_in(cell), cell.training.total_epochs * lengths[cell.name]
            )
            for cell in self._cells
        )

    def _confirm(self, history: History, repeats: Sequence[Trial], total: int, lengths: Mapping[str, float]) -> float:
        """Return the work left of a confirmation, whose trainings are never stopped early."""
        running = sum(
            (trial.total_epochs - trial.last_epoch) * lengths[trial.study]
            for trial in repeats
            if trial.state is TrialState.RUNNING
        )
        candidates = [history.trials[name] for plan in history.plans.values() for name in plan.candidates]
        if candidates:
            whole = fmean(trial.total_epochs * lengths[trial.study] for trial in candidates)
        else:
            counts = self._confirmations
            work = sum(counts[cell.name] * cell.training.total_epochs * lengths[cell.name] for cell in self._cells)
            whole = work / max(1, sum(counts.values()))
        return running + whole * max(0, total - len(repeats))


def epoch_lengths(history: History) -> Mapping[str, float]:
    """Return study -> mean seconds of its epochs, > 0.

    A study without an epoch has the mean over all studies; before the first epoch, 1.
    """
    studies: dict[str, list[float]] = defaultdict(list)
    for trial in history.trials.values():
        studies[trial.study] += map(epoch_seconds, trial.epochs.values())
    trained = {study: seconds for study, seconds in studies.items() if seconds}
    every = fmean(chain.from_iterable(trained.values())) if trained else 1.0
    return defaultdict(lambda: every, {study: fmean(seconds) for study, seconds in trained.items()})


def work_of(trial: Trial) -> float:
    """Return the seconds of the epochs that a trial has trained."""
    return sum(epoch_seconds(metrics) for metrics in trial.epochs.values())


def epoch_seconds(metrics: Mapping[str, float]) -> float:
    """Return the seconds of an epoch, or 1 where the trial did not report them."""
    return metrics.get("time/epoch_seconds", 1.0)


def work_left(trials: Sequence[Trial], total: int, whole: float) -> float:
    """Return the work left of trials that may be stopped early, if new trials are as long as ended trials.

    Args:
        trials: The trials so far.
        total: Trials in all, >= 0.
        whole: Work of a whole trial, used before a trial has ended.
    """
    ended = [work_of(trial) for trial in trials if trial.state is not TrialState.RUNNING]
    usual = fmean(ended) if ended else whole
    running = sum(max(0.0, usual - work_of(trial)) for trial in trials if trial.state is TrialState.RUNNING)
    return running + usual * max(0, total - len(trials))


def blended_rate(work: float, seconds: float, prior: tuple[float, float]) -> float | None:
    """Return the work that is done in a second of this start, to which earlier starts count for a minute.

    Args:
        work: Work of this start.
        seconds: Seconds of this start since its first trial began.
        prior: Work and seconds of all earlier starts.

    Returns:
        The rate, > 0; ``None`` where nothing has been trained yet.
    """
    work_before, seconds_before = prior
    if work_before > 0 and seconds_before > 0:
        weight = min(PRIOR_SECONDS, seconds_before)
        work, seconds = work + weight * work_before / seconds_before, seconds + weight
    return work / seconds if work > 0 and seconds > 0 else None


def evaluation_seconds(history: History) -> float:
    """Return the seconds in which a model is evaluated on test: as measured, or else from evaluations on val."""
    if history.spending.test_seconds > 0 and history.tests:
        return history.spending.test_seconds / len(history.tests)
    evaluations = [
        metrics["time/epoch_seconds"] - metrics["time/train_seconds"]
        for trial in history.trials.values()
        for metrics in trial.epochs.values()
        if metrics.keys() >= {"time/epoch_seconds", "time/train_seconds"}
    ]
    return VAL_AND_TEST * fmean(evaluations) if evaluations else 0.0
