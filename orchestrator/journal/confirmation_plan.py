"""The design of a confirmation, which is recorded before any of its trainings run."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ConfirmationPlan:
    """The design of the confirmation on one dataset.

    The plan is recorded before its values, because the level of the verdict depends on what had been seen before it.

    Attributes:
        dataset: Name of the dataset.
        candidates: Ids of the trials of the search that are trained again, in the order of training.
        seeds: Seeds of each candidate in a fixed design; ``None`` in a race.
        trainings: Most trainings of a race; ``None`` in a fixed design.
        baseline: Label or loss of the baseline; ``None`` where there is none.
        looks: How often values of this confirmation had been seen when the plan was made: test was opened for repeats
            on the dataset, or an earlier plan was replaced whose candidates could already be compared on val.
        first: Seeds of each candidate in the first round of a race; ``None`` in a fixed design, and in a race of an
            older version, which gave out its trainings by another rule.
        level: Level of the verdict if nothing had been seen before; ``None`` in a plan of an older version.
    """

    dataset: str
    candidates: tuple[str, ...]
    seeds: int | None
    trainings: int | None
    baseline: str | None
    looks: int
    first: int | None = None
    level: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return asdict(self)
