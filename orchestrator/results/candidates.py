"""The parts of a verdict: candidates with their seeds, and how the winner compares."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.answer import Quantity
from orchestrator.results.statistics import DifferenceTest, Interval, Measure, Sample, best_of_p, measure, t_interval
from trainables.metric_table import metric_of


def range_of(metric: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can have, so that no interval has impossible values.

    An end is infinite where there is no limit, or where the metric is not known here.

    Example:
        >>> range_of("test/rsum"), range_of("val/i2t_map5")
        ((0.0, 600.0), (0.0, 1.0))
    """
    entry = metric_of(metric)
    return entry.low, entry.high


class Verdict(StrEnum):
    """How the winner compares with another candidate, or with all its opponents."""

    BETTER = "better"
    TIE = "tie"
    """The test finds no difference between the two candidates."""
    WORSE = "worse"
    """The winner is the best on validation, but worse on test."""
    UNTESTED = "untested"
    """The candidates lack the values that a test needs; never a win."""


def verdict_at(difference: float, p: float, level: float) -> Verdict:
    """Return the outcome of a comparison for the first candidate."""
    if p > level:
        return Verdict.TIE
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


@dataclass(frozen=True)
class Candidate:
    """One configuration that was trained again with fresh seeds.

    Attributes:
        dataset: Name of the dataset, within which candidates compete.
        model: Name of the model, as in ``TrialConfig``.
        parameters: Parameters in which candidates differ, see ``history.Trial.parameters``.
        label: Name of the candidate, unique in its dataset.
        values: Seed -> metric -> value, finite; larger is better for the metrics that select and decide.
        missing: Seed without metrics -> reason, e.g. ``{3: "diverged"}``.
        left: Whether the candidate left a race of an older version, after which it cannot win.
        given: Number of seeds that a race or the user gave the candidate; ``None`` where all have equally many.
        has_seeds: Whether another seed could give other values; a closed-form model has a single run.
        images: Seed -> value of each image in the metric that decides, shape (I,), whose mean is the metric; of all
            seeds in ``values`` or of none.
        searches: Number of a search -> trial of its best setting, where the runs are repeated searches; empty where
            they are seeds of one setting.
        metric: The metric that decides; empty before ``judge``, as is ``selection``, the metric that chose the winner.
    """

    dataset: str
    model: str
    loss: str
    parameters: Mapping[str, Any]
    label: str
    values: Mapping[int, Mapping[str, float]]
    missing: Mapping[int, str] = field(default_factory=dict)
    left: bool = False
    given: int | None = None
    has_seeds: bool = True
    images: Mapping[int, Sample] = field(default_factory=dict)
    searches: Mapping[int, str] = field(default_factory=dict)
    metric: str = ""
    selection: str = ""

    @property
    def unit(self) -> str:
        """What a run of the candidate is: ``seed`` or ``search``."""
        return "search" if self.searches else "seed"

    @property
    def units(self) -> str:
        """What several runs of the candidate are: ``seeds`` or ``searches``."""
        return "searches" if self.searches else "seeds"

    @property
    def kind(self) -> tuple[str, str]:
        """Model and loss."""
        return self.model, self.loss

    def sample(self, metric: str) -> Sample:
        """Return the values of a metric in the order of the seeds, shape (S,)."""
        return np.array([self.values[seed][metric] for seed in sorted(self.values)], dtype=np.float64)

    def image_runs(self) -> NDArray[np.float64]:
        """Return the values of the images, one row per seed in the order of the seeds, shape (S, I)."""
        return np.stack([self.images[seed] for seed in sorted(self.values)])

    def measures(self) -> dict[str, Measure]:
        """Return mean and standard deviation of each metric over the seeds that have the metric."""
        names = sorted({name for metrics in self.values.values() for name in metrics})
        by_seed = [self.values[seed] for seed in sorted(self.values)]
        return {name: measure(np.array([metrics[name] for metrics in by_seed if name in metrics])) for name in names}

    @property
    def selected_by(self) -> float:
        """Mean of the selection metric; the winner's is biased upwards, as the highest of several means."""
        return float(self.sample(self.selection).mean())

    @property
    def result(self) -> Measure:
        """Mean and standard deviation (``ddof=0``) of the metric that decides."""
        return measure(self.sample(self.metric))

    @property
    def student(self) -> Interval | None:
        """Student's 95 % interval of the mean of ``result``, within the range of the metric; ``None`` for one seed."""
        interval = t_interval(self.sample(self.metric))
        return None if interval is None else interval.within(*range_of(self.metric))

    @property
    def quantity(self) -> Quantity:
        """The result as a cell: mean, sample standard deviation, and the interval of the mean."""
        return Quantity(self.result.mean, self.result.sample_std, *(self.student or ()))

    def to_dict(self, rank: int) -> dict[str, Any]:
        """Return a ranked candidate as plain values for JSON; a seed that is a key becomes text."""
        return {
            **{name: getattr(self, name) for name in ("label", "dataset", "model", "loss")},
            "parameters": dict(self.parameters),
            "seeds": sorted(self.values),
            "missing": {str(seed): self.missing[seed] for seed in sorted(self.missing)},
            "left": self.left,
            "rank": rank,
            "selected_by": self.selected_by,
            "result": {**asdict(self.result), "sample_std": self.result.sample_std},
            "student": self.student and self.student._asdict(),
            "measures": {name: asdict(value) for name, value in self.measures().items()},
        }


@dataclass(frozen=True)
class Comparison:
    """The winner compared with another candidate.

    Attributes:
        metric: The metric that decides.
        label: Label of the other candidate.
        difference: Mean of the winner minus mean of the other candidate, in the metric's unit.
        on_test_set: Welch's test, in which the seeds vary on this test set; ``None`` where it can't be made.
        over_images: The test over new seeds and new images of this kind, see ``crossed``; ``None`` if seeds decide.
        reason: Why there was no test; empty after a test.
        roles: Some of ``runner_up``, ``rival`` (the best of another model or loss) and ``baseline``; or ``closest``,
            the other candidate with the largest p-value, where the winner does not beat it.
        holm_p: The p-value of ``test`` after Holm's correction over the comparisons of the dataset. For a lead over
            baseline or rival, it is at least the probability that the best of the candidates leads as far by luck.
            Where the winner beats every candidate and this is above the level, it is the largest p-value of the
            winner's leads. Of ``closest``, the p-value itself.
    """

    metric: str
    label: str
    difference: float
    on_test_set: DifferenceTest | None
    over_images: DifferenceTest | None
    verdict: Verdict
    reason: str
    roles: tuple[str, ...] = ()
    holm_p: float | None = None

    @property
    def test(self) -> DifferenceTest | None:
        """The test that decides."""
        return self.over_images or self.on_test_set

    @property
    def p(self) -> float | None:
        """The p-value of the test that decides, before any correction; ``None`` where untested."""
        return None if self.test is None else self.test.p

    def luckiest(self, p: float, chances: int) -> float:
        """Return a p-value, that of a lead corrected for the number of candidates that could have been the winner."""
        return max(p, best_of_p(p, chances)) if self.difference > 0 else p

    def lead(self, chances: int = 1) -> float:
        """Return the p-value of a lead, of the luckiest of some candidates; 1 where there is no lead, or no test."""
        if self.p is None:
            return 0.0 if self.verdict is Verdict.BETTER else 1.0
        return self.luckiest(self.p, chances) if self.difference > 0 else 1.0

    @property
    def deciding_interval(self) -> Interval | None:
        """The 95 % interval of the difference by the test that decides; ``None`` where untested."""
        return self._within(self.test)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the difference by Welch's test over the seeds; ``None`` where untested."""
        return self._within(self.on_test_set)

    @property
    def welch_p(self) -> float | None:
        """The p-value of Welch's test over the seeds, before any correction; ``None`` where untested."""
        return None if self.on_test_set is None else self.on_test_set.p

    def _within(self, test: DifferenceTest | None) -> Interval | None:
        """Return the interval of a test without the differences that two values of the metric can't have."""
        low, high = range_of(self.metric)
        return None if test is None else test.interval.within(low - high, high - low)

    def to_dict(self, smallest_difference: float) -> dict[str, Any]:
        """Return the comparison, and how probable a lead of the smallest size that matters is, as plain values."""
        return {
            "label": self.label,
            "roles": list(self.roles),
            "difference": self.difference,
            "interval": self.interval and self.interval._asdict(),
            "welch_p": self.welch_p,
            "holm_p": self.holm_p,
            "verdict": self.verdict,
            "reason": self.reason,
            "over_images": self.over_images
            and {
                "interval": (self._within(self.over_images) or self.over_images.interval)._asdict(),
                "p": self.over_images.p,
                "probability": self.over_images.probability_beyond(0.0),
                "smallest_difference": smallest_difference,
                "probability_of_smallest": self.over_images.probability_beyond(smallest_difference),
                "error": self.over_images.error,
                "share_of_images": self.share_of_images,
                "share_of_seeds": self.over_images.seed_variance / self.over_images.error**2,
            },
        }

    @property
    def share_of_images(self) -> float:
        """Share of the variance of the difference that only more images reduce, in [0, 1]."""
        test = self.over_images
        return 0.0 if test is None else test.image_variance / test.error**2


def weakest(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the first comparison with the least favourable verdict for the winner; ``None`` without comparisons."""
    order = (Verdict.WORSE, Verdict.UNTESTED, Verdict.TIE, Verdict.BETTER)
    return min(comparisons, key=lambda comparison: order.index(comparison.verdict), default=None)


@dataclass(frozen=True)
class DatasetVerdict:
    """The verdict on the confirmed candidates of a dataset.

    Attributes:
        selection: The metric that chose the winner.
        verdict: *better* where the winner beats every other candidate, else the weakest verdict of the comparisons.
        candidates: The candidates with a finished seed, the winner first, the others in the order of the selection.
        comparisons: The winner with the runner-up, the rival, the baseline, and the closest other unless it is beaten.
        others: The winner with the other candidates that can be tested; their p-values are not corrected.
        warnings: Sentences about the limits of the verdict, e.g. missing seeds.
        level: Corrected p-values up to this level count as a difference; earlier looks at test used the rest of it.
        images: Number of test images where they decide; ``None`` where the seeds alone decide.
        baseline: Label of the baseline; ``None`` where no candidate is the baseline.
        named_baseline: Whether the user named the baseline; else it is the published settings.
        smallest_difference: The smallest lead that matters, in the metric's unit, >= 0; it decides nothing.
    """

    dataset: str
    metric: str
    selection: str
    verdict: Verdict
    candidates: tuple[Candidate, ...]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]
    level: float
    images: int | None = None
    baseline: str | None = None
    named_baseline: bool = False
    others: tuple[Comparison, ...] = ()
    smallest_difference: float = 0.0

    @property
    def decided_by(self) -> str:
        """``seeds`` or ``seeds_and_images``: they vary in the test that decides."""
        return "seeds" if self.images is None else "seeds_and_images"

    @property
    def winner(self) -> Candidate | None:
        """The first candidate; ``None`` where no seed of any candidate finished."""
        return self.candidates[0] if self.candidates else None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON."""
        return {
            "dataset": self.dataset,
            "winner": self.winner.label if self.winner else None,
            "verdict": self.verdict,
            "metric": self.metric,
            "selection": self.selection,
            "decided_by": self.decided_by,
            "level": self.level,
            "comparisons": [comparison.to_dict(self.smallest_difference) for comparison in self.comparisons],
            "standings": [candidate.to_dict(rank) for rank, candidate in enumerate(self.candidates, start=1)],
            "warnings": list(self.warnings),
        }
