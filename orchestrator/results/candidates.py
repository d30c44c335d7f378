"""The parts of a verdict: candidates with their seeds, their ranking, and how the winner compares."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.statistics import Interval, Measure, Sample, measure


class Verdict(StrEnum):
    """How the winner compares with another candidate, or with all its opponents."""

    BETTER = "better"
    TIE = "tie"
    """The test finds no difference between the two candidates."""
    WORSE = "worse"
    """The winner is the best on validation, but worse on test."""
    UNTESTED = "untested"
    """The candidates lack the values that a test needs; never a win."""


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
        given: Number of seeds that a race gave the candidate; ``None`` where every candidate has equally many.
        has_seeds: Whether another seed could give other values; a closed-form model has a single run.
        images: Seed -> value of each image in the metric that decides, shape (I,), whose mean is the metric; of all
            seeds in ``values`` or of none.
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


@dataclass(frozen=True)
class Standing:
    """A candidate in the ranking of its dataset.

    Attributes:
        rank: 1 for the winner; the other candidates follow in the order of the selection metric.
        selected_by: Mean of the selection metric. The winner's mean is biased upwards, as the highest of several means.
        result: Mean and standard deviation (``ddof=0``) of the metric that decides.
        bootstrap: 95 % interval of the mean of ``result`` within the range of the metric, ``None`` for one or two
            seeds; see ``bootstrap_interval``.
        student: 95 % interval of this mean from Student's distribution, ``None`` for one seed.
        measures: Metric -> mean and standard deviation over the seeds.
    """

    candidate: Candidate
    rank: int
    selected_by: float
    result: Measure
    bootstrap: Interval | None
    student: Interval | None
    measures: Mapping[str, Measure]

    def to_dict(self) -> dict[str, Any]:
        """Return the standing as plain values for JSON; a seed that is a key becomes text."""
        one = self.candidate
        return {
            **{name: getattr(one, name) for name in ("label", "dataset", "model", "loss")},
            "parameters": dict(one.parameters),
            "seeds": sorted(one.values),
            "missing": {str(seed): one.missing[seed] for seed in sorted(one.missing)},
            "left": one.left,
            "rank": self.rank,
            "selected_by": self.selected_by,
            "result": {**asdict(self.result), "sample_std": self.result.sample_std},
            "bootstrap": asdict(self.bootstrap) if self.bootstrap else None,
            "student": asdict(self.student) if self.student else None,
            "measures": {name: asdict(value) for name, value in self.measures.items()},
        }


@dataclass(frozen=True)
class OverImages:
    """The winner compared with another candidate over new seeds and new images of this kind, see ``crossed``.

    Attributes:
        interval: 95 % interval of the difference.
        p: Two-sided p-value before any correction.
        probability: Probability that the winner is better, in [0, 1]; not corrected for other comparisons.
        smallest_difference: The smallest lead that matters, in the metric's unit.
        probability_of_smallest: Probability that the winner is better by at least ``smallest_difference``.
        on_this_test_set: Verdict on this test set, where only the seeds vary.
        on_this_test_set_p: Corrected p-value of Welch's test for this verdict; ``None`` where the test can't be made.
        error: Standard error of the difference, in the metric's unit.
        share_of_images: Share of the variance that only more images reduce, in [0, 1].
        share_of_seeds: Share of the variance that only more seeds reduce; more of either reduces the rest.
    """

    interval: Interval
    p: float
    probability: float
    smallest_difference: float
    probability_of_smallest: float
    on_this_test_set: Verdict
    on_this_test_set_p: float | None
    error: float
    share_of_images: float
    share_of_seeds: float


@dataclass(frozen=True)
class Detectable:
    """Which true differences the test that decides finds in 80 % of studies, at the level of the verdict.

    Attributes:
        smallest: The smallest such difference with these seeds and images, in the metric's unit.
        with_twice_the_seeds: The smallest with twice as many seeds of both candidates.
        on_twice_the_images: The smallest with twice as many test images; ``None`` where the seeds alone decide.
        seeds: Seeds of each candidate with which the measured difference is found; ``None`` where the winner is not
            ahead, or no affordable number suffices.
    """

    smallest: float
    with_twice_the_seeds: float
    on_twice_the_images: float | None
    seeds: int | None


@dataclass(frozen=True)
class Comparison:
    """The winner compared with another candidate.

    Attributes:
        roles: Some of ``runner_up``, ``rival`` (the best of another model or loss) and ``baseline``, or ``closest``: of
            the other candidates the one with the largest p-value, where the winner does not beat it.
        difference: Mean of the winner minus mean of the other candidate, in the metric's unit.
        interval: 95 % interval of the difference from Welch's test; ``None`` where untested.
        welch_p: Two-sided p-value of Welch's test over the seeds; ``None`` where untested.
        holm_p: The p-value that decides: of Welch's test or of the test over seeds and images, after Holm's correction
            over the comparisons of the dataset; for a lead over baseline or rival at least the probability that the
            best of the candidates leads as far by luck. Where the winner beats every candidate and this is above the
            level, it is the largest p-value of the winner's leads. Of ``closest``, the p-value itself.
        paired_p: p-value of the paired test, which decides nothing; ``None`` where the test can't be made.
        pairs: Number of seeds that both candidates have.
        effect: Hedges' g, ``None`` without spread.
        verdict: How the winner compares with the other candidate.
        reason: Why there was no test; empty after a test.
        over_images: The test over seeds and images, if it decides; ``None`` if seeds alone decide.
        detectable: Which differences the test finds; ``None`` where untested.
    """

    label: str
    roles: tuple[str, ...]
    difference: float
    interval: Interval | None
    welch_p: float | None
    holm_p: float | None
    paired_p: float | None
    pairs: int
    effect: float | None
    verdict: Verdict
    reason: str
    over_images: OverImages | None = None
    detectable: Detectable | None = None

    @property
    def deciding_interval(self) -> Interval | None:
        """The interval of the test that decides."""
        return self.interval if self.over_images is None else self.over_images.interval


def weakest(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the first comparison with the least favourable verdict for the winner; ``None`` without comparisons."""
    order = (Verdict.WORSE, Verdict.UNTESTED, Verdict.TIE, Verdict.BETTER)
    return min(comparisons, key=lambda one: order.index(one.verdict), default=None)


@dataclass(frozen=True)
class DatasetVerdict:
    """The verdict on the confirmed candidates of a dataset.

    Attributes:
        selection: The metric that chose the winner.
        verdict: *better* where the winner beats every other candidate, else the weakest verdict of the comparisons.
        standings: The candidates with a finished seed, the winner first.
        comparisons: The winner with the runner-up, the rival, the baseline, and the closest other unless it is beaten.
        others: The winner with the other candidates that can be tested; their p-values are not corrected.
        warnings: Sentences about the limits of the verdict, e.g. missing seeds.
        level: Corrected p-values up to this level count as a difference; earlier looks at test used the rest of it.
        decided_by: What varies in the test that decides: ``seeds`` or ``seeds_and_images``.
        images: Number of test images where they decide; ``None`` where the seeds alone decide.
        baseline: Label of the baseline; ``None`` where no candidate is the baseline.
    """

    dataset: str
    metric: str
    selection: str
    verdict: Verdict
    standings: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]
    level: float
    decided_by: str = "seeds"
    images: int | None = None
    baseline: str | None = None
    others: tuple[Comparison, ...] = ()

    @property
    def winner(self) -> Standing | None:
        """The first standing; ``None`` where no seed of any candidate finished."""
        return self.standings[0] if self.standings else None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON."""
        return {
            "dataset": self.dataset,
            "winner": self.winner.candidate.label if self.winner else None,
            "verdict": self.verdict,
            "metric": self.metric,
            "selection": self.selection,
            "decided_by": self.decided_by,
            "level": self.level,
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
            "standings": [standing.to_dict() for standing in self.standings],
            "warnings": list(self.warnings),
        }
