"""The design of a confirmation, which is recorded before any of its trainings run."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ConfirmationPlan:
    """The design of the confirmation on one dataset.

    The plan is recorded before its values, because the level of the verdict depends on how often the test split had
    been opened before the plan.

    Attributes:
        dataset: Name of the dataset.
        candidates: Ids of the trials of the search that are trained again, in the order of training.
        seeds: Seeds of each candidate in a fixed design; ``None`` in a race.
        trainings: Most trainings of a race; ``None`` in a fixed design.
        baseline: Label or loss of the baseline; ``None`` where there is none.
        looks: How often the test split had been opened for repeats on the dataset when the plan was made.
    """

    dataset: str
    candidates: tuple[str, ...]
    seeds: int | None
    trainings: int | None
    baseline: str | None
    looks: int

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return asdict(self)
