"""Losses at equal budgets as values: curves and comparisons; see ``equal_budget.py``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Unit = Literal["trials", "epochs", "hours"]
"""Unit in which a budget is counted."""

UNITS: tuple[Unit, ...] = ("trials", "epochs", "hours")


@dataclass(frozen=True)
class LossCurve:
    """The expected best value of one loss over growing budgets, one point for each number of trials.

    Attributes:
        label: The loss, after the model if the dataset has several models.
        model: Name of the model.
        loss: Name of the loss.
        candidates: Number of candidates that the search tried.
        trials: Number of candidates that are drawn, at each point.
        epochs: Cost of these candidates in epochs.
        hours: Cost of these candidates in hours, see ``EqualBudget.hours_are``.
        expected: The expected best value, in the metric's unit.
        low: Lower end of the band (``expected_best.BAND``).
        high: Upper end of the band.
    """

    label: str
    model: str
    loss: str
    candidates: int
    trials: Sequence[float]
    epochs: Sequence[float]
    hours: Sequence[float]
    expected: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    def costs(self, unit: Unit) -> Sequence[float]:
        """Return the costs of the points in the given unit."""
        return {"trials": self.trials, "epochs": self.epochs, "hours": self.hours}[unit]


@dataclass(frozen=True)
class Crossing:
    """A budget at which the curves of two losses cross.

    Attributes:
        at: The budget, in the unit under which the crossing is listed.
        ahead: Label of the loss that is ahead at larger budgets.
    """

    at: float
    ahead: str


@dataclass(frozen=True)
class LossComparison:
    """The loss with the highest value compared with another loss.

    Attributes:
        first: Label of the loss with the highest value.
        other: Label of the other loss.
        trials: Number of trials that both losses have.
        difference: Expected best of the first loss minus expected best of the other, with ``trials`` trials each.
        probability: How often the first loss is ahead when the trials are resampled, in [0, 1].
        crossings: Unit of the budget -> where the curves cross.
        further_trials: Number of further trials of the other loss, as many as it had.
        chance: Probability that further trials surpass the best of the other loss, in [0, 1].
    """

    first: str
    other: str
    trials: int
    difference: float
    probability: float
    crossings: Mapping[Unit, Sequence[Crossing]]
    further_trials: int
    chance: float


@dataclass(frozen=True)
class EqualBudget:
    """The losses of a dataset at equal budgets.

    Attributes:
        metric: Metric on val, which selects.
        hours_are: ``GPU hours``, or ``trial hours`` where the GPUs of a trial are not known.
        losses: Curves of the losses, the best loss first.
        comparisons: The best loss compared with each other loss.
    """

    metric: str
    hours_are: str
    losses: Sequence[LossCurve]
    comparisons: Sequence[LossComparison]

    def name_of(self, unit: Unit) -> str:
        """Return the name of a unit for people."""
        return self.hours_are if unit == "hours" else unit

    def to_dict(self) -> dict[str, Any]:
        """Return the answers as plain values for JSON."""
        return asdict(self)
