"""The points of a search: settings with all their trainings. The value of a point is the mean over its trainings.

A trial of the search whose suggestion repeats an earlier setting is a replicate. It names the first trial of the
setting as its ``candidate``, and is trained with a seed of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from statistics import fmean

from orchestrator.journal.trial import Stage, Trial, TrialState
from trainables.metric_table import VAL, values_in

FEWEST_EPOCHS = 2
"""Epochs from which on equal values in each epoch are no coincidence."""


@dataclass(frozen=True)
class Point:
    """A setting of a study, with all trials of the search that have it, in the order of their numbers; at least one.

    A point is made anew when its trainings have changed.
    """

    trainings: tuple[Trial, ...]

    @property
    def first(self) -> Trial:
        """The training whose id names the point."""
        return self.trainings[0]

    @cached_property
    def finished(self) -> tuple[Trial, ...]:
        """The trainings that were trained to their end and have a value; only these trainings count."""
        finished = (trial for trial in self.trainings if trial.state is TrialState.FINISHED)
        return tuple(trial for trial in finished if trial.best_epoch is not None)

    @property
    def state(self) -> TrialState:
        """State of the point: finished as soon as one training has finished, running while one may still finish."""
        states = {trial.state for trial in self.trainings}
        # After these two, in the order of the states: stopped early, diverged, failed.
        return next(state for state in (TrialState.FINISHED, *TrialState) if state in states)

    @property
    def value(self) -> float | None:
        """Mean of the highest metrics of the finished trainings; ``None`` where no training has finished."""
        return self.mean(self.first.metric)

    def value_so_far(self, metric: str) -> float | None:
        """Return ``mean``; before a training has finished, the highest of the running trainings, if there is any."""
        running = (trial.at_best.get(metric) for trial in self.trainings if trial.state is TrialState.RUNNING)
        highest = max((value for value in running if value is not None), default=None)
        return self.mean(metric) if self.finished else highest

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric at the best epochs of the finished trainings; ``None`` without any."""
        values = [trial.at_best[metric] for trial in self.finished]
        return fmean(values) if values else None

    @property
    def newest_best(self) -> tuple[int, float]:
        """The last epoch of ``running_best`` with its value; zeros before the first epoch."""
        last = max(training.last_epoch for training in self.trainings)
        values = [training.best_value for training in self.trainings if training.last_epoch == last]
        return last, fmean(value or 0.0 for value in values)

    def running_best(self) -> dict[int, float]:
        """Return the mean of the best values so far at each epoch, over the trainings that have reached the epoch."""
        curves = [trial.running_best() for trial in self.trainings]
        if len(curves) == 1:
            return curves[0]
        epochs = sorted({epoch for curve in curves for epoch in curve})
        return {epoch: fmean(curve[epoch] for curve in curves if epoch in curve) for epoch in epochs}


def points_of(trials: Iterable[Trial]) -> list[Point]:
    """Return the points of the trials of a search, in the order of their first trials; other trials are left out."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.stage is Stage.SEARCH:
            groups.setdefault(trial.candidate or trial.id, []).append(trial)
    return [Point(tuple(sorted(group, key=attrgetter("number")))) for group in groups.values()]


def by_study(points: Iterable[Point]) -> dict[str, list[Point]]:
    """Return study -> its points, in their order."""
    studies: dict[str, list[Point]] = {}
    for point in points:
        studies.setdefault(point.first.study, []).append(point)
    return studies


def points_by_study(trials: Iterable[Trial]) -> dict[str, list[Point]]:
    """Return study -> ``points_of`` its trials, the studies in the order of their first trials."""
    return by_study(points_of(trials))


def ranked(points: Iterable[Point]) -> list[Point]:
    """Return the points with a finished training, the highest mean first, of equal means the earlier point first."""
    valued = [(value, point) for point in points if (value := point.value) is not None]
    return [
        point for _, point in sorted(valued, key=lambda pair: (-pair[0], pair[1].first.study, pair[1].first.number))
    ]


def best_points(trials: Iterable[Trial]) -> list[Point]:
    """Return the points of the trials of a search, ``ranked``."""
    return ranked(points_of(trials))


def trained_alike(first: Trial, other: Trial) -> bool:
    """Whether two trainings with equal seeds have the same metrics on val in every epoch, to the last digit.

    The difference between their settings had no effect. A margin that every sample violates is an example: it adds a
    constant to the loss, and nothing to its gradient.
    """
    return (
        first.best_value == other.best_value
        and first.config.seed == other.config.seed
        and first.combination == other.combination
        and first.last_epoch >= FEWEST_EPOCHS
        and _on_val(first) == _on_val(other)
    )


def _on_val(trial: Trial) -> dict[int, dict[str, float]]:
    return {epoch: values_in(metrics, VAL) for epoch, metrics in trial.epochs.items()}


def differing(trials: Sequence[Trial]) -> list[str]:
    """Return the names of the searched parameters in which trials of a study differ."""
    trials = [trial for trial in trials if not trial.is_zero_shot]
    first = trials[0].params if trials else {}
    return [name for name in first if any(trial.params.get(name) != first[name] for trial in trials)]
