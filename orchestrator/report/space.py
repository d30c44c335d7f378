"""The search space of a study from its trials: the parameters that differed, and the axes on which they are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.journal.trial import Trial
from orchestrator.report.figures import Json, axis, log_ticks, scaled
from orchestrator.report.importance import main_effect
from orchestrator.report.studies import Study


@dataclass(frozen=True)
class Searched:
    """The trials of a study that have a value, with the parameters in which they differ.

    Attributes:
        parameters: Name -> value in each trial, in the order of the search space.
        importance: Name -> main effect of the parameter, ``None`` if unknown.
        logs: Names of the parameters whose axis is logarithmic.
    """

    study: Study
    trials: Sequence[Trial]
    values: Sequence[float]
    parameters: Mapping[str, Sequence[Any]]
    importance: Mapping[str, float | None]
    logs: frozenset[str]

    @property
    def shares(self) -> list[tuple[str, float]]:
        """Names and known importances of the parameters, the least important first."""
        told = [(name, share) for name, share in self.importance.items() if share is not None]
        return sorted(told, key=lambda pair: pair[1])

    @property
    def numbers(self) -> list[str]:
        """Names of the parameters that are numbers, the most important first."""
        names = [name for name, values in self.parameters.items() if not is_word(values)]
        return sorted(names, key=lambda name: -(self.importance[name] or 0.0))

    def unit(self, name: str) -> list[float]:
        """Return the values of a parameter that is a number, on [0, 1] of its axis."""
        return scaled(self.parameters[name], log=name in self.logs)

    def spread(self, name: str, count: int) -> list[float]:
        """Return evenly spaced values on a number's axis, from the lowest tried value to the highest."""
        low, high = min(self.parameters[name]), max(self.parameters[name])
        values = np.geomspace(low, high, count) if name in self.logs else np.linspace(low, high, count)
        return [float(f"{value:.5g}") for value in values]

    def axis(self, name: str) -> Json:
        """Return the axis of a parameter."""
        values = self.parameters[name]
        if is_word(values):
            return axis(name, type="category")
        return axis(name, type="log", **log_ticks(min(values), max(values))) if name in self.logs else axis(name)


def searched(study: Study) -> Searched:
    """Return the searched parameters of a study."""
    # In conditional search spaces a trial may lack a parameter; only parameters that every trial has can be drawn.
    names = [name for trial in study.valued[:1] for name in trial.params]
    names = [name for name in names if all(name in trial.params for trial in study.valued)]
    trials = study.valued
    values = [trial.best_value or 0.0 for trial in trials]
    columns = {name: [trial.params[name] for trial in trials] for name in names}
    columns = {name: column for name, column in columns.items() if len({str(value) for value in column}) > 1}
    effects = {name: main_effect(column, values) for name, column in columns.items()}
    logs = frozenset(name for name, column in columns.items() if _is_log(study.logs, name, column))
    return Searched(study, trials, values, columns, effects, logs)


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
