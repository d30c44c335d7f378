"""The search space of a study from its trials: the parameters that differ, their axes, and the surface over them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.journal.trial import Trial
from orchestrator.report.figures import Json, axis, log_axis, log_ticks, scaled
from orchestrator.report.studies import Study
from orchestrator.results.bands import Band
from orchestrator.text.wording import parameter_names


@dataclass(frozen=True)
class Searched:
    """The trials of a study that have a value, with the parameters in which they differ.

    Attributes:
        parameters: Name -> value in each trial, in the order of the search space.
        logs: Names of the parameters whose axis is logarithmic.
        band: The surface over the parameters, where there are enough trials.
    """

    study: Study
    trials: Sequence[Trial]
    values: Sequence[float]
    parameters: Mapping[str, Sequence[Any]]
    logs: frozenset[str]
    band: Band | None = None

    @property
    def metric(self) -> str:
        """The metric that the search maximised."""
        return self.trials[0].metric

    @property
    def names(self) -> dict[str, str]:
        """Name -> name for people of each parameter."""
        return parameter_names(self.parameters)

    @property
    def numbers(self) -> list[str]:
        """Names of the parameters that are numbers, those with the largest effect first, where effects are known."""
        names = [name for name, values in self.parameters.items() if not is_word(values)]
        changes = self.band.changes if self.band else {}
        return sorted(names, key=lambda name: -(changes[name].value if name in changes else 0.0))

    def unit(self, name: str) -> list[float]:
        """Return the values of a parameter on [0, 1] of its axis; words are spread evenly in alphabetical order."""
        values = self.parameters[name]
        if not is_word(values):
            return scaled(values, log=name in self.logs)
        words = sorted({str(value) for value in values})
        return [words.index(str(value)) / (len(words) - 1) for value in values]

    def axis(self, name: str) -> Json:
        """Return the axis of a parameter."""
        values = self.parameters[name]
        if is_word(values):
            return axis(self.names[name], type="category")
        return log_axis(self.names[name], values) if name in self.logs else axis(self.names[name])

    def ticks(self, name: str) -> list[tuple[float, str]]:
        """Return places on [0, 1] of a parameter's axis, from low to high, and the values there."""
        values = self.parameters[name]
        if is_word(values):
            words = sorted({str(value) for value in values})
            return [(place / (len(words) - 1), word) for place, word in enumerate(words)]
        return number_ticks(values, log=name in self.logs)


def number_ticks(values: Sequence[float], *, log: bool = False) -> list[tuple[float, str]]:
    """Return places on [0, 1] of an axis from the lowest value to the highest: both ends, and round values between.

    Args:
        values: Values on the axis; all > 0 for a logarithmic axis.
        log: Whether the axis is logarithmic.
    """
    low, high = min(values), max(values)
    if low == high:
        return [(0.5, f"{low:.3g}")]
    steps = (1, 2, 5) if high < 200 * low else (1,)
    rounded = log_ticks(low, high, steps) if log else _round_values(low, high)
    between = [value for value in rounded if low < value < high]
    places = scaled([low, *between, high], log=log)
    texts = [f"{low:.3g}", *(f"{value:g}" for value in between), f"{high:.3g}"]
    ticks = zip(places, texts, strict=True)
    # A round value beside an end would be written over the value of the end.
    return [(place, text) for place, text in ticks if place in (places[0], places[-1]) or 0.07 <= place <= 0.93]


def _round_values(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten within a range, at most six."""
    size = 10.0 ** np.floor(np.log10((high - low) / 6))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= 6)
    return [float(f"{place * step:.6g}") for place in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def searched(study: Study, band: Band | None = None) -> Searched:
    """Return the searched parameters of a study, with its surface."""
    # In conditional search spaces a trial may lack a parameter; only parameters that every trial has can be drawn.
    names = [name for trial in study.valued[:1] for name in trial.params]
    names = [name for name in names if all(name in trial.params for trial in study.valued)]
    trials = study.valued
    values = [trial.best_value or 0.0 for trial in trials]
    columns = {name: [trial.params[name] for trial in trials] for name in names}
    columns = {name: column for name, column in columns.items() if len({str(value) for value in column}) > 1}
    logs = frozenset(name for name, column in columns.items() if _is_log(study.logs, name, column))
    return Searched(study, trials, values, columns, logs, band)


def is_word(values: Sequence[Any]) -> bool:
    """Say whether a parameter is no number in some trial."""
    return any(isinstance(value, str | bool) or not isinstance(value, int | float) for value in values)


def _is_log(logs: Mapping[str, bool], name: str, values: Sequence[Any]) -> bool:
    """Say whether a range is logarithmic; listed values count as logarithmic if their spacing is."""
    if is_word(values) or min(values) <= 0:
        return False
    if name in logs:
        return logs[name]
    low, high, middle = min(values), max(values), float(np.median(values))
    return high > 20 * low and middle < (low * high) ** 0.5 * 2


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's correlation with mean ranks for ties; ``None`` below three pairs or for constant values."""
    a, b = _ranks(x), _ranks(y)
    if len(a) < 3 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return ranks from 1; equal values share the mean of their ranks."""
    array = np.asarray(values, dtype=float)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
