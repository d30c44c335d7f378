"""The parts of a verdict: candidates with their seeds, their ranking, and how the winner compares."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.statistics import Interval, Measure, Sample, measure


class Verdict(StrEnum):
    """How the winner stands to another candidate, or to all that it was compared with."""

    BETTER = "better"
    TIE = "tie"
    """The seeds do not tell them apart."""
    WORSE = "worse"
    """Best on validation, beaten on test."""
    UNTESTED = "untested"
    """There are not the numbers for a test; never a win."""


class Departed(StrEnum):
    """How a candidate left a race before its end, see ``race.py``."""

    BEATEN = "beaten"
    """The leader was found better."""
    TRAILED = "trailed"
    """So far behind the leader that it was not worth a further seed."""
    LOST = "lost"
    """A training of it diverged or failed, so it could not win any more."""


@dataclass(frozen=True)
class Departure:
    """When and how a candidate left a race.

    Attributes:
        how: Why it got no further seed.
        seeds: After how many finished seeds.
    """

    how: Departed
    seeds: int


@dataclass(frozen=True)
class Candidate:
    """One configuration that was trained again with fresh seeds.

    Attributes:
        dataset: Name of the dataset, within which candidates compete.
        model: Name of the model, as in ``TrialConfig``.
        loss: Name of the loss.
        parameters: Parameters in which candidates differ, see ``history.Trial.parameters``.
        label: Tells it from the other candidates of its dataset.
        values: Metrics by seed, finite, larger is better for metrics that select and decide.
        missing: Seed without metrics -> reason, e.g. ``{3: "diverged"}``.
        left: How it left a race before its end, after which it cannot win; ``None`` if it did not.
        has_seeds: Whether another seed could give other values; a closed-form model has one run.
        images: The value of each image, shape (I,), in the metric that decides, by seed; their mean is the metric. For
            no seed or for each that has values.
    """

    dataset: str
    model: str
    loss: str
    parameters: Mapping[str, Any]
    label: str
    values: Mapping[int, Mapping[str, float]]
    missing: Mapping[int, str] = field(default_factory=dict)
    left: Departure | None = None
    has_seeds: bool = True
    images: Mapping[int, Sample] = field(default_factory=dict)

    def sample(self, metric: str) -> Sample:
        """Return the values of a metric in the order of the seeds."""
        return np.array([self.values[seed][metric] for seed in sorted(self.values)], dtype=np.float64)

    def image_runs(self) -> NDArray[np.float64]:
        """Return the values of the images, a row a seed in the order of the seeds, shape (S, I)."""
        return np.stack([self.images[seed] for seed in sorted(self.values)])

    def measures(self) -> dict[str, Measure]:
        """Return each metric over the seeds that have it."""
        names = sorted({name for metrics in self.values.values() for name in metrics})
        by_seed = [self.values[seed] for seed in sorted(self.values)]
        return {name: measure(np.array([metrics[name] for metrics in by_seed if name in metrics])) for name in names}


@dataclass(frozen=True)
class Standing:
    """A candidate in the ranking of its dataset.

    Attributes:
        rank: From 1; the rest follows the winner in the order of the selection metric.
        selected_by: Mean of the selection metric. For the winner it is too high, because it is the best of several.
        result: Mean and standard deviation (``ddof=0``) of the metric that decides.
        bootstrap: 95 % interval of that mean within the range of the metric, ``None`` for one or two seeds; see
            ``bootstrap_interval``.
        student: Interval of the mean from Student's distribution, ``None`` for one seed.
        measures: Every metric over the seeds.
    """

    candidate: Candidate
    rank: int
    selected_by: float
    result: Measure
    bootstrap: Interval | None
    student: Interval | None
    measures: Mapping[str, Measure]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON, in which a seed is a text."""
        one = self.candidate
        return {
            **{name: getattr(one, name) for name in ("label", "dataset", "model", "loss")},
            "parameters": dict(one.parameters),
            "seeds": sorted(one.values),
            "missing": {str(seed): one.missing[seed] for seed in sorted(one.missing)},
            "left": asdict(one.left) if one.left else None,
            "rank": self.rank,
            "selected_by": self.selected_by,
            "result": {**asdict(self.result), "sample_std": self.result.sample_std},
            "bootstrap": asdict(self.bootstrap) if self.bootstrap else None,
            "student": asdict(self.student) if self.student else None,
            "measures": {name: asdict(value) for name, value in self.measures.items()},
        }


@dataclass(frozen=True)
class OverImages:
    """The winner against another candidate with other seeds on new images of this kind, see ``crossed``.

    Attributes:
        interval: 95 % interval of the difference.
        p: Two-sided, before any correction.
        probability: Probability that the winner is better at all, in [0, 1]; of this comparison alone.
        smallest_difference: The least lead that matters, in the metric's unit.
        probability_of_smallest: Probability that the winner is better by at least ``smallest_difference``.
        on_this_test_set: Verdict if only seeds vary.
        on_this_test_set_p: The corrected p-value of Welch's test, which said so; ``None`` where it can't be made.
        error: Standard error of the difference.
        share_of_images: Part of the variance that only more images make smaller, in [0, 1].
        share_of_seeds: Part of the variance that only more seeds make smaller; both make the rest smaller.
        told_from: The smallest difference whose 95 % interval would leave out 0, uncorrected.
        told_with_twice_the_seeds: This probability with twice as many seeds.
        told_on_twice_the_images: This probability on twice as many test images.
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
    told_from: float
    told_with_twice_the_seeds: float
    told_on_twice_the_images: float


@dataclass(frozen=True)
class Comparison:
    """The winner against another candidate.

    Attributes:
        label: Label of the other candidate.
        roles: Some of ``runner_up``, ``rival`` (the best of another model or loss) and ``baseline``.
        difference: Mean of the winner minus mean of the other.
        interval: 95 % interval of the difference, Welch's; ``None`` where untested.
        welch_p: Two-sided, over the seeds alone; ``None`` where untested.
        holm_p: The p-value of the test that decides, Welch's or that over seeds and images, after Holm's correction
            over the comparisons of the dataset, and for a lead over baseline or rival not below the chance that the
            best of the candidates leads so by luck. It decides.
        paired_p: Over the ``pairs`` of equal seeds; ``None`` where that test can't be made. It decides nothing.
        effect: Hedges' g, ``None`` without spread.
        verdict: How the winner stands to the other.
        reason: Why there was no test; empty after a test.
        over_images: The test over seeds and images, if it decides; ``None`` if seeds alone decide.
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

    @property
    def roles_in_words(self) -> str:
        """The roles as people read them, such as ``runner-up and baseline``."""
        return " and ".join(role.replace("_", "-") for role in self.roles)


def weakest(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the first comparison with the least favourable verdict for the winner; ``None`` of no comparisons."""
    order = (Verdict.WORSE, Verdict.UNTESTED, Verdict.TIE, Verdict.BETTER)
    return min(comparisons, key=lambda one: order.index(one.verdict), default=None)


@dataclass(frozen=True)
class DatasetVerdict:
    """The verdict on the confirmed candidates of a dataset.

    Attributes:
        metric: The metric that decides.
        selection: The metric that chose the winner.
        verdict: The weakest verdict of the comparisons.
        reason: One sentence about the verdict.
        standings: The winner first; without candidates that have no finished seed.
        comparisons: With the runner-up, the rival and the baseline.
        warnings: Sentences about missing seeds.
        level: Corrected p-values up to this level make a difference; earlier looks have spent the rest of the level.
        decided_by: What varies in the test that decides: ``seeds`` or ``seeds_and_images``.
        compared: A sentence about the comparison; empty for a single candidate.
        found: A sentence about the finding of each comparison.
        would_change: Sentences about what would change the verdict; empty if unknown.
    """

    dataset: str
    metric: str
    selection: str
    verdict: Verdict
    reason: str
    standings: tuple[Standing, ...]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]
    level: float
    decided_by: str = "seeds"
    compared: str = ""
    found: tuple[str, ...] = ()
    would_change: tuple[str, ...] = ()

    @property
    def winner(self) -> Standing | None:
        """The first of the standings; ``None`` where no seed of any candidate finished."""
        return self.standings[0] if self.standings else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "dataset": self.dataset,
            "winner": self.winner.candidate.label if self.winner else None,
            "verdict": self.verdict,
            "reason": self.reason,
            "metric": self.metric,
            "selection": self.selection,
            "decided_by": self.decided_by,
            "level": self.level,
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
            "standings": [standing.to_dict() for standing in self.standings],
            "compared": self.compared,
            "found": list(self.found),
            "would_change": list(self.would_change),
            "warnings": list(self.warnings),
        }
