"""What a confirmation was going to train, written down before any of its trainings ran."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ConfirmationPlan:
    """The design of the confirmation on one dataset.

    The plan is in the journal before its values are, because the level of its verdict depends on how often the test
    split was opened before it.

    Attributes:
        dataset: Whose candidates are trained again.
        candidates: Ids of trials of the search, in the order in which they are trained.
        seeds: Of a fixed design: seeds of each candidate; ``None`` in a race.
        trainings: Of a race: trainings at most; ``None`` in a fixed design.
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
