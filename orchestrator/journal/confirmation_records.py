"""Records of a confirmation: its design, its plan, and each reading of the test split.

The design of a confirmation, which is recorded before any of its trainings run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from orchestrator.journal.record import Record, TrialRecord


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


class ConfirmationPlanned(Record, frozen=True, kw_only=True, tag="confirmation_planned"):
    """The trials of a dataset that are trained again were chosen; written before the first of these trainings.

    Attributes:
        dataset: Name of the dataset.
        candidates: Ids of the trials of the search that are trained again, in the order of training.
        seeds: Seeds of each candidate in a fixed design, >= 1; ``None`` in a race.
        trainings: Most trainings of a race, >= 1; ``None`` in a fixed design.
        baseline: Label or loss of the baseline; ``None`` where there is none.
        looks: How often values had been seen when the plan was made, >= 0: test was opened for repeats on the dataset,
            or a plan was replaced whose candidates could already be compared on val.
        first: Seeds of each candidate in the first round of a race, >= 2; without it a race is of an older version.
        level: Level of the verdict if nothing had been seen before, in (0, 1); without it a fixed design has 0.04.
    """

    dataset: str
    candidates: tuple[str, ...]
    seeds: int | None
    trainings: int | None
    baseline: str | None
    looks: int
    first: int | None = None
    level: float | None = None

    @classmethod
    def of(cls, plan: ConfirmationPlan) -> "ConfirmationPlanned":
        """Return the record of a plan."""
        return cls(**plan.to_dict())

    @property
    def plan(self) -> ConfirmationPlan:
        """The plan that the record holds."""
        return msgspec.convert(self, ConfirmationPlan, from_attributes=True)


class OpenedTest(Record, frozen=True, kw_only=True, tag="test_opened"):
    """The test split of a dataset is about to be read; written before the split is opened.

    Attributes:
        dataset: Name of the dataset.
        trials: Ids of the trials that are evaluated.
    """

    dataset: str
    trials: Sequence[str]


class EvaluatedOnTest(TrialRecord, frozen=True, kw_only=True, tag="test_evaluated"):
    """A trial was evaluated on the test split, once for each trial.

    Attributes:
        metrics: Metrics on the test split, by name without a prefix, e.g. ``rsum``; finite numbers.
        ranks: The ranks of the queries, see ``trainables.ranks.Ranks.to_text``; older versions did not keep them.
        judged: Where people's judgements lie beside the dataset: the ranks of the candidates that people judged to fit,
            one mapping per source of judgements, see ``trainables.judgements.judged_metrics.JudgedRanks.to_text``.
    """

    metrics: Mapping[str, float]
    ranks: Mapping[str, Any] | None = None
    judged: Sequence[Mapping[str, Any]] | None = None
