"""One candidate compared with another, without any correction: difference, interval, p-value and units.

The test is chosen by what varies. Over units and images it is that of ``crossed``. Over the units alone it is Welch's,
which keeps 2 (n - 1) degrees of freedom, unlike the paired test. Runs of different losses with one seed are hardly
correlated; where they are, Welch's test errs towards *tie*. Units are seeds, or searches where a candidate has several
of them (``runs.Unit``): seeds of one search share its setting, so they are no independent values of a loss.

Nothing here knows why two candidates are compared, or how many others there are. A p-value of this module is that of a
pair which was fixed beforehand; ``question.Question`` corrects it for everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orchestrator.results.crossed import crossed_test
from orchestrator.results.runs import Runs, Unit
from orchestrator.results.statistics import (
    SAME,
    DifferenceTest,
    Interval,
    Measure,
    difference_of,
    has_spread,
    one_sided,
    pooled_spread,
    welch_test,
)
from trainables.metric_table import range_of

UNLIKE = 9.0
"""Ratio of two variances over searches from which on the degrees of freedom are halved.

The luck of a search has a long tail below and none above. A loss whose luck is ten times that of another leads its
equal where its bad searches happen not to be among few. Where the trials of the searches are not known, this rule is
all that is done about it (``tests/benchmarks/repeats.py``); it costs no power where luck is alike.
"""

UNLIKE_LUCK = 4.0
"""Ratio of the variances that the trials of two losses show (``Runs.luck``) from which on they are least variances.

Then nobody has to notice the rare bad searches among few. Equal losses of which one has ten times the luck of the other
are called different in at most 3 % of studies, before in 5 to 9 %. Where luck is alike this costs a point of power with
three searches, and nothing with more (``tests/benchmarks/repeats.py``).
"""

EQUAL = 1e-9
"""Differences of two candidates without an error that are this close to a bound are equal to it."""


@dataclass(frozen=True)
class Comparison:
    """The first candidate compared with the second.

    Attributes:
        first, second: Labels of the candidates.
        difference: Mean of the first minus mean of the second, in the metric's unit.
        unit: What the test takes as independent values of a candidate.
        test: The test; ``None`` where there is none.
        reason: Why there is no test; empty after a test.
        is_exact: Whether the difference has no error, because neither candidate could have other values.
    """

    first: str
    second: str
    metric: str
    difference: float
    unit: Unit
    test: DifferenceTest | None
    reason: str = ""
    is_exact: bool = False

    @property
    def p(self) -> float | None:
        """The two-sided p-value before any correction; ``None`` where there is no test."""
        return None if self.test is None else self.test.p

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the difference, without differences that two values of the metric cannot have."""
        low, high = range_of(self.metric)
        return None if self.test is None else self.test.interval.within(low - high, high - low)

    @property
    def images(self) -> int | None:
        """Number of images that vary in the test; ``None`` where the units alone vary, or there is no test."""
        return None if self.test is None else self.test.images

    @property
    def varies(self) -> str:
        """What varies in the test: ``seeds`` or ``searches``, where images vary followed by ``_and_images``."""
        return self.unit.plural if self.images is None else f"{self.unit.plural}_and_images"

    @property
    def share_of_images(self) -> float:
        """Share of the variance of the difference that only more images reduce, in [0, 1]."""
        return 0.0 if self.test is None or self.images is None else self.test.image_variance / self.test.error**2

    def p_above(self, bound: float) -> float | None:
        """Return the one-sided p-value of a true difference above a bound; ``None`` where nothing was tested."""
        if self.test is not None:
            return float(one_sided(self.difference - bound, self.test.error, self.test.freedom))
        return float(self.difference - bound < EQUAL) if self.is_exact else None

    def turned(self) -> "Comparison":
        """Return the second candidate compared with the first."""
        test = self.test
        if test is not None:
            parts = {"seeds": test.seeds[::-1], "joint": test.joint[::-1], "counts": test.counts[::-1]}
            test = replace(test, difference=-test.difference, **parts)  # type: ignore[arg-type]
        return replace(self, first=self.second, second=self.first, difference=-self.difference, test=test)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values for JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "metric": self.metric,
            "difference": self.difference,
            "interval": self.interval and self.interval._asdict(),
            "varies": self.varies,
            "p_unadjusted": self.p,
            "reason": self.reason,
        }


def compare(first: Runs, second: Runs, metric: str, *, over_images: bool = False) -> Comparison:
    """Compare two candidates by a metric that both have.

    The unit is the search where one of them has several searches; the other then needs several as well, or is a
    constant, against which the searches have a one-sample test. Of candidates whose means alone are known, those and
    their deviations are compared.

    Args:
        first: The first candidate.
        second: The second candidate.
        metric: Name with its split, such as ``test/rsum``.
        over_images: Whether images vary beside the units, where both candidates have the values of their images.

    Example:
        >>> a = Runs.of_seeds("a", {seed: {"test/rsum": value} for seed, value in enumerate((201.0, 203.0, 202.0))})
        >>> b = Runs.of_seeds("b", {seed: {"test/rsum": value} for seed, value in enumerate((190.0, 191.0, 195.0))})
        >>> compared = compare(a, b, "test/rsum")
        >>> compared.difference, round(compared.p, 4), compared.varies
        (10.0, 0.0137, 'seeds')
    """
    unit = Unit.SEARCH if Unit.SEARCH in (first.unit, second.unit) else Unit.SEED
    sides = (first, second)
    if not all(side.values for side in sides):
        return _of_means(first, second, metric)
    ours, theirs = (side.sample(metric, unit) for side in sides)
    difference = float(ours.mean() - theirs.mean())
    compared = Comparison(first.label, second.label, metric, difference, unit, None)
    # Another search would find another setting, also of a model without seeds.
    exact = tuple(side.is_constant or (unit is Unit.SEED and not side.has_seeds) for side in sides)
    is_lone = any(len(sample) < 2 and not known for sample, known in zip((ours, theirs), exact, strict=True))
    rows = [side.image_rows(metric, unit) for side in sides] if over_images else [None, None]
    test = None
    if is_lone:
        pass
    elif rows[0] is not None and rows[1] is not None:
        test = crossed_test(rows[0], rows[1])
    if test is None and not is_lone:
        test = welch_test(ours, theirs, (exact[0], exact[1]))
    if test is not None:
        lucks = [0.0 if side.is_constant else side.luck.get(metric) for side in sides]
        return replace(compared, test=wary_of_luck(test, lucks) if unit is Unit.SEARCH else test)
    units = unit.plural
    if all(exact):
        same = abs(difference) < EQUAL
        reason = "neither candidate has seeds, "
        reason += "and both have the same value" if same else "so the difference is exact on these test images"
        return replace(compared, difference=0.0 if same else difference, reason=reason, is_exact=True)
    if is_lone:
        return replace(compared, reason=f"a test needs at least two {units} of each candidate")
    if not has_spread(np.concatenate([ours, theirs])):
        reason = f"all {units} of both candidates have the same value"
        return replace(compared, difference=0.0, reason=reason, is_exact=True)
    return replace(compared, reason=f"no candidate varies over its {units}, so there is no spread to test against")


def compare_alike(first: Runs, second: Runs, metric: str, *, least_spread: float = 0.0) -> Comparison:
    """Compare two candidates that have one spread where nothing differs, by Student's test with the pooled spread.

    Accepted runs and a rerun of the same training are draws of one distribution, so the test keeps its level. Welch's
    would give away degrees of freedom for unlike spreads.

    Args:
        first: The first candidate; one of both has at least two runs with a known spread.
        second: The second candidate; its deviation may be unknown, as that of a published row.
        metric: Metric that both have.
        least_spread: The standard deviation between runs is taken to be at least this, in the metric's unit.

    Raises:
        ValueError: If no candidate has two runs.
    """
    ours, theirs = first.measure(metric), second.measure(metric)
    pooled, freedom = pooled_spread([ours, theirs])
    spread, difference = max(pooled, least_spread), ours.mean - theirs.mean
    compared = Comparison(first.label, second.label, metric, difference, Unit.SEED, None)
    if spread == 0:
        return replace(compared, reason="no candidate varies over its seeds", is_exact=True)
    parts = (spread**2 / ours.seeds, spread**2 / theirs.seeds)
    counts = (ours.seeds, theirs.seeds)
    test = DifferenceTest(difference, parts, (0.0, 0.0), counts, sum(parts), shared_freedom=freedom)
    return replace(compared, test=test)


def wary_of_luck(test: DifferenceTest, lucks: Sequence[float | None]) -> DifferenceTest:
    """Return a test of searches that allows for rare bad searches, of which few searches show none.

    Where the trials of both losses say that their luck is ``UNLIKE_LUCK``, no variance is below what they say. Else the
    degrees of freedom are halved where the variances of the searches themselves are ``UNLIKE``.
    """
    known = [luck for luck in lucks if luck is not None]
    if len(known) == 2 and max(known) > UNLIKE_LUCK * min(known):
        first, second = (
            max(part, luck / count) for part, luck, count in zip(test.seeds, known, test.counts, strict=True)
        )
        return replace(test, seeds=(first, second), total=test.total + first + second - sum(test.seeds))
    small, large = sorted(test.seeds)
    return replace(test, share_of_freedom=0.5) if large > UNLIKE * small else test


def _of_means(first: Runs, second: Runs, metric: str) -> Comparison:
    """Compare candidates of which one has no values of runs, only its mean and deviation."""
    ours, theirs = first.measure(metric), second.measure(metric)
    compared = Comparison(first.label, second.label, metric, ours.mean - theirs.mean, Unit.SEED, None)
    if ours.sample_std is None or theirs.sample_std is None:
        return replace(compared, reason="a test needs the deviation over at least two runs of each candidate")
    if not any(scatters(side) for side in (ours, theirs)):
        return replace(compared, reason="no candidate varies over its seeds, so there is no spread to test against")
    return replace(compared, test=difference_of(ours, theirs))


def scatters(side: Measure) -> bool:
    """Whether the runs of a measure differ by more than rounding."""
    return (side.std or 0.0) > SAME * max(1.0, abs(side.mean))
