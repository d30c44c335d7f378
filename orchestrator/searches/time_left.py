"""How long an experiment takes: all of it before it begins, and the rest while it runs.

Work is counted in seconds of epochs as trials report them (``time/epoch_seconds``): an epoch of one model may take
ten times as long as another's. Where trials report none, each epoch counts as one. The seconds of epochs in one second
of the clock depend on the trials that run side by side, and on the pauses between epochs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Scheduler
from orchestrator.journal.history import History
from orchestrator.journal.records import EpochEnded, ExperimentStarted, Record
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.text.values import clock_text

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


class TrainingRate:
    """How fast an experiment trains: seconds of epochs in a second of the clock.

    Args:
        history: History of the experiment, which others keep up to date; its present records count as earlier starts.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._work = sum(map(work_of, history.trials.values()))
        self._before = self._work, history.spending.training_seconds

    def listen(self, record: Record) -> None:
        """Note an epoch that was trained, or a further start of the experiment."""
        if isinstance(record, EpochEnded):
            self._work += epoch_seconds(record.metrics)
        elif isinstance(record, ExperimentStarted):
            self._before = self._work, self._history.spending.training_seconds

    @property
    def rate(self) -> float | None:
        """Seconds of epochs that are trained in a second of this start, > 0; ``None`` before the first epoch of all.

        Earlier starts count for ``PRIOR_SECONDS`` of this start.
        """
        work_before, seconds_before = self._before
        work = self._work - work_before
        seconds = self._history.spending.training_seconds - seconds_before
        if work_before > 0 and seconds_before > 0:
            weight = min(PRIOR_SECONDS, seconds_before)
            work, seconds = work + weight * work_before / seconds_before, seconds + weight
        return work / seconds if work > 0 and seconds > 0 else None


class PlannedWork:
    """All trainings and evaluations of an experiment.

    Args:
        experiment: The experiment. Its studies are made once, because a display asks several times a second.
        lengths: Study -> seconds of an epoch, measured before the search; ``None`` takes those of the history.
        evaluation: Seconds of the evaluation of a model on test, measured likewise.
        at_most: Whether the scheduler is taken to stop no trial.
    """

    def __init__(
        self,
        experiment: Experiment,
        lengths: Mapping[str, float] | None = None,
        evaluation: float | None = None,
        *,
        at_most: bool = False,
    ) -> None:
        self._experiment, self._cells = experiment, experiment.cells()
        self._lengths, self._evaluation = lengths, evaluation
        self.confirmations = experiment.most_confirmations()
        most = {cell.name: cell.training.total_epochs for cell in self._cells}
        usual = {cell.name: expected_epochs(most[cell.name], cell.scheduler) for cell in self._cells}
        self.epochs: Mapping[str, float] = most if at_most else usual

    @property
    def models(self) -> int:
        """Models that are evaluated on test, at most; without a confirmation the winner of each dataset."""
        is_confirmed = self._experiment.confirm is not None
        return sum(self.confirmations.values()) if is_confirmed else len(self._experiment.datasets)

    def left(self, history: History, rate: float, *, trainings: int | None = None) -> TimeLeft:
        """Return the time left, if the seconds of epochs that are trained in a second are ``rate``, > 0.

        ``trainings`` are those of the confirmation in all, once they are known: the search is over then.
        """
        lengths = self._lengths or epoch_lengths(history)
        hours, is_confirmed = self._experiment.budget.hours, self._experiment.confirm is not None
        search = 0.0 if trainings is not None else self._search(history, lengths) / rate
        if hours is not None:
            search = min(search, max(0.0, hours * 3600 - history.spending.searched_seconds))
        repeats = history.stage(Stage.CONFIRM)
        total = sum(self.confirmations.values()) if trainings is None else trainings
        confirm = self._confirm(history, repeats, total, lengths) / rate
        lost = sum(trial.has_ended and trial.state is not TrialState.FINISHED for trial in repeats)
        models = total - lost if is_confirmed else self.models
        candidates = repeats if is_confirmed else history.stage(Stage.SEARCH)
        evaluated = sum(trial.id in history.tests for trial in candidates)
        evaluation = evaluation_seconds(history) if self._evaluation is None else self._evaluation
        stages = {"search": search, "confirm": confirm, "test": max(0, models - evaluated) * evaluation}
        return TimeLeft({stage: seconds for stage, seconds in stages.items() if seconds > 0})

    def _search(self, history: History, lengths: Mapping[str, float]) -> float:
        trials: dict[str, list[Trial]] = defaultdict(list)
        for trial in history.stage(Stage.SEARCH):
            trials[trial.study].append(trial)
        return sum(
            work_left(trials[cell.name], self._experiment.trials_in(cell), self.epochs[cell.name] * lengths[cell.name])
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
            counts = self.confirmations
            work = sum(counts[cell.name] * cell.training.total_epochs * lengths[cell.name] for cell in self._cells)
            whole = work / max(1, sum(counts.values()))
        return running + whole * max(0, total - len(repeats))


def expected_epochs(epochs: int, scheduler: Scheduler) -> float:
    """Return the mean epochs of a trial under ASHA, where one in ``reduction_factor`` passes each rung.

    The mean is too low for few trials, because the first trials pass each rung. For other schedulers it is all epochs,
    because the trials that these schedulers stop depend on the curves.

    Example:
        >>> round(expected_epochs(9, Scheduler(name="asha", grace_epochs=1, reduction_factor=3)), 2)
        2.33
    """
    if scheduler.name != "asha":
        return float(epochs)
    rung, reached, passing, mean = float(scheduler.grace_epochs), 0.0, 1.0, 0.0
    while reached < epochs:
        mean += passing * (min(rung, epochs) - reached)
        reached = min(rung, epochs)
        rung *= scheduler.reduction_factor
        passing /= scheduler.reduction_factor
    return mean


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
    """Return the work left of ``total`` trials that may be stopped early, if new trials are as long as ended trials.

    Before a trial has ended, new trials take ``whole``, the work of a whole trial.
    """
    ended = [work_of(trial) for trial in trials if trial.state is not TrialState.RUNNING]
    usual = fmean(ended) if ended else whole
    running = sum(max(0.0, usual - work_of(trial)) for trial in trials if trial.state is TrialState.RUNNING)
    return running + usual * max(0, total - len(trials))


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
