"""Statistics of few seeds: means, intervals, tests and power for two to ten values a candidate.

References:
    [Welch1947] Welch, The generalization of Student's problem when several different population variances are
        involved, Biometrika 34, 28-35.
    [Holm1979] Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statistics 6, 65-70.
    [Sidak1967] Sidak, Rectangular confidence regions for the means of multivariate normal distributions, J. American
        Statistical Association 62, 626-633.
    [Satterthwaite1946] Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Sample = NDArray[np.float64]

CONFIDENCE = 0.95
"""Level of every interval."""

POWER = 0.8
"""Share of studies in which a difference must be found to be called detectable."""

TAILS = (0.975, 0.025)
"""Probabilities of a smaller estimate at the lower and at the upper end of the interval of a variance."""

MOST = 200
"""Largest number of seeds of a candidate that is considered."""

SAME = 1e-12
"""Values this close, in the metric's unit or relative to the largest, differ by rounding alone."""


@dataclass(frozen=True)
class Measure:
    """A metric over the seeds of a candidate.

    Attributes:
        std: Standard deviation of the population (``ddof=0``), as in the published tables; ``None`` for one run or
            where the deviation is not known.
        seeds: Number of runs, >= 1.
    """

    mean: float
    std: float | None
    seeds: int

    def __post_init__(self) -> None:
        """Refuse values that no table and no test can use."""
        for name, value in (("mean", self.mean), ("std", self.std)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}")

    @property
    def sample_std(self) -> float | None:
        """The estimated standard deviation of all possible runs (``ddof=1``); ``None`` for one run.

        The estimate holds where ``std`` is over the seeds; in a row of COCOS, ``std`` is not over the seeds.
        """
        if self.std is None or self.seeds < 2:
            return None
        return self.std * math.sqrt(self.seeds / (self.seeds - 1))


class Interval(NamedTuple):
    """A 95 % confidence interval of a mean, both ends in the metric's unit."""

    low: float
    high: float

    def within(self, low: float, high: float) -> "Interval":
        """Return the part of the interval in which a mean can lie; the coverage of the mean does not change."""
        return Interval(max(self.low, low), min(self.high, high))


@dataclass(frozen=True)
class DifferenceTest:
    """The test of a difference of two means, with Student's distribution.

    The variance V of the difference is known in parts, from which the power of a study of another size follows.

    Attributes:
        difference: Mean of the first candidate minus mean of the second, in the metric's unit.
        seeds: A of each candidate: variance of its mean over its seeds, >= 0; 0 for a candidate without seeds.
        joint: C of each candidate: the part of A that more images reduce as well, >= 0; 0 where images are fixed.
        counts: Number of seeds of each candidate, >= 1.
        total: V >= 0; the part beyond both A is the effect of the images.
        images: Number of images, >= 2; ``None`` where images are fixed.
        share_of_freedom: Factor of the degrees of freedom of both A, in (0, 1]; see ``comparison.UNLIKE``.
        shared_freedom: Degrees of freedom of a spread that both candidates share; ``None`` where each has its own.
    """

    difference: float
    seeds: tuple[float, float]
    joint: tuple[float, float]
    counts: tuple[int, int]
    total: float
    images: int | None = None
    share_of_freedom: float = 1.0
    shared_freedom: int | None = None

    @property
    def seed_variance(self) -> float:
        """The part of V that only more seeds reduce."""
        return max(0.0, sum(self.seeds) - sum(self.joint))

    @property
    def joint_variance(self) -> float:
        """The part of V that more seeds and more images reduce."""
        return min(sum(self.joint), self.total - self.seed_variance)

    @property
    def image_variance(self) -> float:
        """The part of V that only more images reduce."""
        return max(0.0, self.total - self.seed_variance - self.joint_variance)

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom of V [Satterthwaite1946], which must be above 0.

        Where images vary, each A is multiplied by 1 + 2 / f here. The A of three seeds is often far too small by
        chance, and would leave the many degrees of freedom of the images.
        """
        if self.shared_freedom is not None:
            return float(self.shared_freedom)
        freedoms = [float(max(1, count - 1)) for count in self.counts]
        caution = 0 if self.images is None else 2
        weighed = [part * (1 + caution / f) for part, f in zip(self.seeds, freedoms, strict=True)]
        freedoms = [self.share_of_freedom * freedom for freedom in freedoms]
        rest = max(0.0, self.total - sum(self.seeds))
        return satterthwaite([*weighed, rest], [*freedoms, self.images - 1 if self.images else math.inf])

    @cached_property
    def error(self) -> float:
        """The standard error of the difference."""
        return math.sqrt(self.seed_variance + self.image_variance + self.joint_variance)

    @cached_property
    def interval(self) -> Interval:
        """The 95 % interval of the difference."""
        return around(self.difference, self.error, self.freedom)

    @cached_property
    def p(self) -> float:
        """The two-sided p-value: probability of so large a difference if the true means were equal."""
        return two_sided(self.difference / self.error, self.freedom)

    def probability_beyond(self, least: float) -> float:
        """Return the probability that the first candidate is better than the second by at least ``least``.

        It is the one-sided confidence, which equals the posterior probability under an uninformative prior.
        """
        away = two_sided((self.difference - least) / self.error, self.freedom) / 2
        return 1 - away if self.difference > least else away

    def with_seeds(self, seeds: int) -> "DifferenceTest":
        """Return the test to expect with a number of seeds of each candidate, on the same images."""
        fewer = [old / seeds for old in self.counts]
        shared = [part * less for part, less in zip(self.joint, fewer, strict=True)]
        alone = [part * less - both for part, less, both in zip(self.seeds, fewer, shared, strict=True)]
        # Where the measured C are larger than what V leaves for them, they shrink from that.
        joint = self.joint_variance * sum(shared) / sum(self.joint) if any(self.joint) else 0.0
        first, second = (max(0.0, part + both) for part, both in zip(alone, shared, strict=True))
        total = max(0.0, sum(alone)) + joint + self.image_variance
        return DifferenceTest(
            self.difference,
            (first, second),
            (shared[0], shared[1]),
            (seeds, seeds),
            total,
            self.images,
            self.share_of_freedom,
        )

    def detectable(self, level: float) -> float:
        """Return the smallest true difference that a test at a level finds in ``POWER`` of the studies of this size.

        The statistic has a noncentral t-distribution; leads in the wrong direction are not counted.
        """
        from scipy.special import nctdtrinc

        beyond = quantile(1 - level / 2, self.freedom)
        return float(nctdtrinc(self.freedom, 1 - POWER, beyond)) * math.sqrt(self.total)

    def needed_seeds(self, level: float) -> int | None:
        """Return the smallest number of seeds of each candidate with which a true difference of this size is found.

        A measured difference is itself uncertain, and that of a winner is too large on average, so the true number may
        well be larger.

        Args:
            level: Two-sided level of the test, in (0, 1).

        Returns:
            The number, at least 2; ``None`` where it is above ``MOST``, or more seeds of these images never suffice.

        Example:
            >>> DifferenceTest(1.5, (0.2, 0.2), (0.0, 0.0), (5, 5), 0.4).needed_seeds(0.05)
            9
        """
        low, high = 1, MOST + 1
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.with_seeds(middle).detectable(level) <= abs(self.difference)
            low, high = (low, middle) if enough else (middle, high)
        return high if high <= MOST else None

    def range_of_seeds(self, level: float) -> tuple[int, int | None] | None:
        """Return between which numbers of seeds of each candidate a true difference of this size is found.

        A few seeds leave the variances unsure by a factor of two and more, and so the number of seeds that they need.
        The ends are ``needed_seeds`` at both ends of the 95 % intervals of the variances, over seeds and over images.
        In at least 95 % of studies the number that the true variances need lies between them.

        Args:
            level: Two-sided level of the test, in (0, 1).

        Returns:
            Fewest and most seeds; ``None`` as the most where these are above ``MOST``, and ``None`` alone where the
            fewest are.

        Example:
            >>> DifferenceTest(1.5, (0.2, 0.2), (0.0, 0.0), (5, 5), 0.4).range_of_seeds(0.05)
            (5, 27)
        """
        fewest, most = (self._with_variances(probability).needed_seeds(level) for probability in TAILS)
        return None if fewest is None else (fewest, most)

    def _with_variances(self, probability: float) -> "DifferenceTest":
        """Return the test if the variances were these ends of their intervals, from chi-squared distributions."""
        from scipy.special import chdtri

        freedoms = [max(1, count - 1) for count in self.counts]
        freedom = satterthwaite(self.seeds, freedoms) if any(self.seeds) else 1.0
        # ``chdtri`` is the inverse of the upper tail.
        of_seeds = freedom / float(chdtri(freedom, 1 - probability))
        of_images = 1.0 if self.images is None else (self.images - 1) / float(chdtri(self.images - 1, 1 - probability))
        first, second = (max(both, part * of_seeds) for part, both in zip(self.seeds, self.joint, strict=True))
        total = first + second + (self.total - sum(self.seeds)) * of_images
        return replace(self, seeds=(first, second), total=total)


def measure(values: Sample) -> Measure:
    """Return mean and population standard deviation of at least one value."""
    return Measure(float(values.mean()), float(values.std()) if len(values) > 1 else None, len(values))


def has_spread(values: Sample) -> bool:
    """Whether values, at least one, differ by more than rounding."""
    return bool(np.ptp(values) > SAME * max(1.0, np.abs(values).max()))


def t_interval(values: Sample) -> Interval | None:
    """Return Student's interval of the mean, exact for normal values; ``None`` for a single value."""
    if len(values) < 2:
        return None
    return around(float(values.mean()), _error_of_mean(values), len(values) - 1)


def welch_test(first: Sample, second: Sample, exact: tuple[bool, bool] = (False, False)) -> DifferenceTest | None:
    """Compare two means without assuming equal spreads [Welch1947].

    Args:
        first: The first candidate's values of the seeds.
        second: The second candidate's values of the seeds.
        exact: For each sample, whether its single value has no error, because no seed could change it. The test is then
            Student's test of the other sample against this value.

    Returns:
        The test; ``None`` where a sample that is not exact has a single value, or neither sample has spread.
    """
    samples = (first, second)
    if any(len(values) < 2 and not is_exact for values, is_exact in zip(samples, exact, strict=True)):
        return None
    if not any(map(has_spread, samples)):
        return None
    ours, theirs = (0.0 if len(values) < 2 else _error_of_mean(values) ** 2 for values in samples)
    counts = len(first), len(second)
    return DifferenceTest(float(first.mean() - second.mean()), (ours, theirs), (0.0, 0.0), counts, ours + theirs)


def difference_of(first: Measure, second: Measure) -> DifferenceTest:
    """Return the test of the difference of two means over seeds; an unknown deviation counts as none."""
    ours, theirs = ((side.sample_std or 0.0) ** 2 / side.seeds for side in (first, second))
    counts = first.seeds, second.seeds
    return DifferenceTest(first.mean - second.mean, (ours, theirs), (0.0, 0.0), counts, ours + theirs)


def pooled_spread(measures: Sequence[Measure]) -> tuple[float, int]:
    """Return the standard deviation between seeds and its degrees of freedom, pooled over several runs.

    Deviations are taken from each run's own mean.

    Raises:
        ValueError: If no run has two seeds with a known spread.
    """
    known = [run for run in measures if run.std is not None]
    freedom = sum(run.seeds - 1 for run in known)
    if freedom < 1:
        raise ValueError("no run has two seeds, so there is no spread between seeds to compare with")
    # ``std`` divides by the number of seeds, so the sum of squares is seeds x std^2.
    return math.sqrt(sum(run.seeds * (run.std or 0.0) ** 2 for run in known) / freedom), freedom


def standard_error(spread: float, seeds: tuple[int, int]) -> float:
    """Return the standard error of the difference of two means over these numbers of seeds, with a common spread."""
    return spread * math.sqrt(1 / seeds[0] + 1 / seeds[1])


def holm(p_values: Sequence[float]) -> list[float]:
    """Return corrected p-values: rejecting all <= a level makes any error with at most this probability [Holm1979]."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[index]))
        corrected[index] = largest
    return corrected


def best_of_p(p: float, candidates: int) -> float:
    """Return how likely the luckiest of several candidates leads so far over an opponent as good as they are.

    A candidate leads so far with probability p / 2. Leads over one opponent are positively correlated. So at least one
    of k candidates does with at most 1 - (1 - p / 2)^k [Sidak1967], whatever the spreads of the candidates.

    Args:
        p: Two-sided p-value of the winner against the opponent, in [0, 1].
        candidates: Number of candidates that could have been the winner, >= 1.
    """
    return -math.expm1(candidates * math.log1p(-p / 2))


def _error_of_mean(values: Sample) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def satterthwaite(parts: Sequence[float] | Sample, freedoms: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of independent variances from those of its parts [Satterthwaite1946]."""
    squares = [part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True)]
    return float(np.sum(parts) ** 2 / np.sum(squares))


def around(centre: float, error: float, freedom: float) -> Interval:
    """Return the 95 % interval of a mean from Student's distribution with ``freedom`` degrees of freedom."""
    reach = quantile((1 + CONFIDENCE) / 2, freedom) * error
    return Interval(centre - reach, centre + reach)


def quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's distribution at a probability in (0, 1)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def one_sided(size: ArrayLike, error: ArrayLike, freedom: float) -> NDArray[np.float64]:
    """Return Student's p-value of differences above 0 with these estimated standard errors; any shapes that broadcast.

    Where the error is 0, a difference above 0 has p = 0, and any other p = 1.
    """
    from scipy.special import stdtr

    sizes, errors = np.broadcast_arrays(np.asarray(size, dtype=np.float64), np.asarray(error, dtype=np.float64))
    certain = np.where(sizes > 0, -np.inf, np.inf)
    return np.asarray(stdtr(freedom, np.where(errors > 0, -sizes / np.where(errors > 0, errors, 1.0), certain)))


def two_sided(statistic: float, freedom: float) -> float:
    """Return the probability that Student's statistic is at least as far from 0, in either direction."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(statistic)))
