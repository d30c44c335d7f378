"""The answers at equal budget as values: curves, comparisons, and the leaders over time; see ``equal_budget.py``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Unit = Literal["trials", "epochs", "hours"]
"""In which a budget is counted."""

UNITS: tuple[Unit, ...] = ("trials", "epochs", "hours")


@dataclass(frozen=True)
class LossCurve:
    """The expected best of one loss over growing budgets, a point for each number of trials.

    Attributes:
        label: The loss, with the model before it if the dataset has several.
        model: Name of the model.
        loss: Name of the loss.
        candidates: How many candidates the search tried.
        trials: Number of candidates that are drawn, at each point.
        epochs: Cost of these trials in epochs.
        hours: Cost of these trials in hours, see ``EqualBudget.hours_are``.
        expected: The expected best.
        low: Lower end of the band.
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
        """Return the costs of the points in one unit."""
        return {"trials": self.trials, "epochs": self.epochs, "hours": self.hours}[unit]


@dataclass(frozen=True)
class Crossing:
    """A budget at which the curves of two losses cross.

    Attributes:
        at: The budget, in the unit under which the crossing is listed.
        ahead: Label of the loss that is ahead from there on.
    """

    at: float
    ahead: str


@dataclass(frozen=True)
class LossComparison:
    """The loss with the highest value against another loss.

    Attributes:
        first: Label of the loss with the highest value.
        other: Label of the other.
        trials: As many as both have.
        difference: Expected best of the first minus that of the other, with ``trials`` each.
        probability: How often the first is ahead when the trials are drawn anew, in [0, 1].
        crossings: Unit of the budget -> where the curves cross.
        further_trials: As many again as the other had.
        chance: Probability that the other's best is surpassed by its further trials.
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
class Incumbent:
    """A trial that led the search when it ended.

    Attributes:
        after: How many trials had ended by then.
        trial: Its id.
        value: Its value in the search.
        confirmed: Mean value of its trainings with fresh seeds; ``None`` without any.
        seeds: How many these are.
    """

    after: int
    trial: str
    value: float
    confirmed: float | None
    seeds: int


@dataclass(frozen=True)
class EqualBudget:
    """The losses of a dataset at equal budgets, and the optimism of the search.

    Attributes:
        metric: Metric on val, which selects.
        hours_are: ``GPU hours``, or ``trial hours`` where the GPUs of a trial are not known.
        losses: Best first.
        comparisons: The best with each other loss.
        ended: How many trials of the search have ended.
        incumbents: Leaders of the search, oldest first.
        flattery: Mean of the confirmed candidates' values in the search minus those with fresh seeds, over the
            candidates that the search trained to their end; ``None`` without such a candidate.
    """

    metric: str
    hours_are: str
    losses: Sequence[LossCurve]
    comparisons: Sequence[LossComparison]
    ended: int
    incumbents: Sequence[Incumbent]
    flattery: float | None

    def name_of(self, unit: Unit) -> str:
        """Return the name of a unit for people."""
        return self.hours_are if unit == "hours" else unit

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return asdict(self)
