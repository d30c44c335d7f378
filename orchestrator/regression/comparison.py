"""Has a baseline's score dropped? Pure statistics on the seeds of an accepted and of a new run.

Two groups of questions are asked of a suite, and a third where a drift can be tested; each group has an equal share of
the suite's false-alarm rate:

- *Scores* (recalls): one-sided, is the new mean lower? A drop is found where it is significant and the observed drop is
  at least as large as the smallest drop that matters. Where a drop that matters is neither found nor excluded, the
  finding is *inconclusive*.
- *Gradients* (training loss and COCOS counts): two-sided, has the mean moved? A change is found where it is significant
  and the observed change is at least a share of the accepted mean. A loss whose gradients changed may leave recalls
  unchanged, or raise them: the finding is *changed*, and neither better nor worse.
- *Drift*: the question of the scores, against the first accepted runs (``verdict.py``).

Within a group every test has the same level: the group's rate divided by the number of its tests [Bonferroni] and,
where more seeds may be added after a look, by the number of looks. Each test is Student's on the cell's own spread,
with the degrees of freedom of that spread: where a cell has not changed, its accepted and its new runs are draws of one
distribution, so the level holds whatever the spreads of other cells are. (A spread over all cells has more degrees of
freedom, but calls a noisy cell among quiet cells a regression more often than stated.) Levels and powers hold for
normal values.

The rule by which a difference is found, and its power: the means of m and n independent normal values of one spread
sigma differ by D, whose standard error is e = sigma sqrt(1/m + 1/n). The spread is estimated with ``freedom`` degrees
of freedom from deviations about the two means, so the estimate is independent of D, and is sigma times the square root
of a chi-square value over ``freedom``. With r = estimate / sigma, and t Student's quantile of the test's level, the
rule finds a difference where

    D >= max(smallest, t e r)                 (either sign of D where the rule looks both ways)

Both conditions belong to the rule, so both belong to its power, which is the mean over r of

    P(D >= max(smallest, t e r) | r) = Phi((true difference - max(smallest, t e r)) / e)

A true difference of exactly ``smallest`` is therefore found in at most half of the cases, with any number of seeds:
half of the observed differences are smaller than the true difference. ``detectable`` says which true difference a rule
finds with a given probability.

References:
    [Bonferroni] Dunn, Multiple comparisons among means, J. American Statistical Association 56 (1961), 52-64.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orchestrator.results.statistics import Measure, measure

Numbers = NDArray[np.float64]

NODES = 400
"""Number of quantiles of the estimated spread over which a power is averaged; the error of the power is below 0.001."""

HALVINGS = 25
"""How often the interval that holds the detectable difference is halved."""


@dataclass(frozen=True)
class Rule:
    """The rule by which a difference is found.

    Attributes:
        level: Probability of a finding where there is no difference, in (0, 1), of both signs together.
        smallest: The smallest observed difference that is a finding, >= 0.
        both_ways: Whether differences of both signs are findings, or only differences above 0.
    """

    level: float
    smallest: float
    both_ways: bool = False

    def p(self, difference: ArrayLike, error: ArrayLike, freedom: int) -> Numbers:
        """Return Student's p-value of differences with these estimated standard errors; any shapes that broadcast.

        Where the error is 0, any difference that the rule looks for has p = 0, and no difference has p = 1.
        """
        from scipy.special import stdtr

        size, scale = np.broadcast_arrays(self._size(difference), np.asarray(error, dtype=np.float64))
        certain = np.where(size > 0, -np.inf, np.inf)
        tail = stdtr(freedom, np.where(scale > 0, -size / np.where(scale > 0, scale, 1.0), certain))
        return np.asarray(np.minimum(2.0 * tail, 1.0) if self.both_ways else tail)

    def finds(self, difference: ArrayLike, error: ArrayLike, freedom: int) -> NDArray[np.bool_]:
        """Say whether each observed difference, with its estimated standard error, is found."""
        size = self._size(difference)
        return np.asarray((self.p(difference, error, freedom) <= self.level) & (size >= self.smallest) & (size > 0))

    def power(self, true: float, error: float, freedom: int, *, least_error: float = 0.0) -> float:
        """Return the probability that a true difference is found.

        Args:
            true: Difference of the true means.
            error: True standard error of the observed difference, >= 0.
            freedom: Degrees of freedom of the estimate of the spread.
            least_error: The smallest standard error that the rule assumes, >= 0.
        """
        from scipy.special import ndtr

        if error == 0:
            return float(self.finds(true, least_error, freedom))
        bound = self._bounds(error, freedom, least_error)
        found = ndtr((true - bound) / error)
        if self.both_ways:
            found += ndtr((-true - bound) / error)
        return float(found.mean())

    def detectable(self, chance: float, error: float, freedom: int, *, least_error: float = 0.0) -> float:
        """Return the smallest true difference, >= ``smallest``, that is found with this probability.

        Args:
            chance: Probability in (0, 1).
            error: As in ``power``.
            freedom: As in ``power``.
            least_error: As in ``power``.
        """
        from scipy.special import ndtri

        # ``high`` is the largest bound plus the normal quantile of ``chance`` in standard errors. A true difference of
        # ``high`` is found with probability ``chance`` or more at each estimate of the spread.
        low = self.smallest
        high = float(self._bounds(error, freedom, least_error).max()) + max(float(ndtri(chance)), 0.0) * error
        for _ in range(HALVINGS if high > low else 0):
            middle = (low + high) / 2
            if self.power(middle, error, freedom, least_error=least_error) < chance:
                low = middle
            else:
                high = middle
        return high

    def _size(self, difference: ArrayLike) -> Numbers:
        return np.abs(difference) if self.both_ways else np.asarray(difference, dtype=np.float64)

    def _bounds(self, error: float, freedom: int, least_error: float) -> Numbers:
        """Return the smallest difference that is found at each quantile of the estimated spread."""
        reach = quantile(1 - (self.level / 2 if self.both_ways else self.level), freedom)
        return np.maximum(self.smallest, reach * np.maximum(error * estimates(freedom), least_error))


def chance_to_exclude(matters: float, error: float, freedom: int, sure: float) -> float:
    """Return the probability that a drop that matters is excluded if the true drop is 0.

    A drop is excluded where D + t e r < matters, with t Student's quantile of ``sure``.

    Args:
        matters: The smallest drop that matters, > 0.
        error: True standard error of the observed drop D, >= 0.
        freedom: Degrees of freedom of the estimate of the spread.
        sure: Confidence in (0, 1).
    """
    from scipy.special import ndtr

    if error == 0:
        return 1.0
    return float(ndtr(matters / error - quantile(sure, freedom) * estimates(freedom)).mean())


@lru_cache(maxsize=256)
def estimates(freedom: int) -> Numbers:
    """Return equally likely quantiles of the estimated spread divided by the true spread, shape (NODES,)."""
    from scipy.special import gammaincinv

    middles = (np.arange(NODES) + 0.5) / NODES
    return np.asarray(np.sqrt(2 * gammaincinv(freedom / 2, middles) / freedom))


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's distribution at a probability in (0, 1)."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def standard_error(spread: float, seeds: tuple[int, int]) -> float:
    """Return the standard error of the difference of two means over these numbers of seeds."""
    return spread * math.sqrt(1 / seeds[0] + 1 / seeds[1])


SURE = 0.95
"""Confidence with which a drop that matters must be excluded before a cell is called ``ok``."""

POWER = 0.9
"""Probability of finding the detectable drop, and probability that the needed seeds settle a cell."""

NEGLIGIBLE = 0.005
"""The test takes a count's spread between seeds to be at least this share of the count."""

MOST_SEEDS = 50
"""Most seeds that a comparison can need."""


class Finding(StrEnum):
    """The finding about one number, one cell, or a suite."""

    OK = "ok"
    """No drop that matters."""
    IMPROVEMENT = "improvement"
    """Significantly better, by a difference that matters: worth accepting."""
    REGRESSION = "regression"
    """Significantly worse, by a difference that matters."""
    CHANGED = "changed"
    """Other gradients, by a difference that matters, without a score that is significantly worse."""
    INCONCLUSIVE = "inconclusive"
    """The seeds neither show a drop that matters nor exclude it."""
    FAILED = "failed"
    """A training of the cell diverged or failed: as bad as a regression."""
    IDENTICAL = "identical"
    """Every seed that the accepted run has too gave the accepted numbers to the last digit."""
    UNKNOWN = "unknown"
    """No reference exists."""


SEVERITY = (
    Finding.FAILED,
    Finding.REGRESSION,
    Finding.CHANGED,
    Finding.INCONCLUSIVE,
    Finding.IMPROVEMENT,
    Finding.OK,
    Finding.IDENTICAL,
    Finding.UNKNOWN,
)
"""The findings, worst first: the worst finding of a suite's cells is the finding of the suite."""


def level_of(rate: float, tests: int, looks: int = 1) -> float:
    """Return the significance level of one test at one look, where a group of tests has a rate of false alarms."""
    return rate / (max(tests, 1) * looks)


@dataclass(frozen=True)
class Change:
    """The comparison of the accepted and the new mean of one number of a cell.

    Attributes:
        accepted: Mean over the accepted seeds.
        new: Mean over the new seeds.
        seeds: Number of accepted seeds, number of new seeds.
        spread: Standard deviation between seeds that the test used; ``power`` and ``detectable`` take this spread for
            the true spread.
        freedom: Degrees of freedom of the estimate of the spread.
        p: p-value, one-sided for a drop of a score, two-sided for a number of the gradients.
        power: Probability of finding a true difference of exactly the smallest difference that matters. The power is at
            most a half: a finding needs an observed difference of at least this size, and half of the observed
            differences are smaller than the true difference.
        detectable: The true difference that is found with probability ``POWER``.
        needed: New seeds that would settle the comparison; ``None`` where the comparison is settled, or where no number
            of seeds would settle it.
    """

    metric: str
    accepted: float
    new: float
    seeds: tuple[int, int]
    spread: float
    freedom: int
    p: float
    power: float
    detectable: float
    needed: int | None
    finding: Finding

    @property
    def difference(self) -> float:
        """New minus accepted, in the metric's unit."""
        return self.new - self.accepted

    @property
    def share(self) -> float | None:
        """The difference as a share of the accepted mean; ``None`` where that is 0."""
        return self.difference / abs(self.accepted) if self.accepted else None

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return standard_error(self.spread, self.seeds)


def pooled_spread(measures: Sequence[Measure]) -> tuple[float, int]:
    """Return the standard deviation between seeds and its degrees of freedom, pooled over several runs.

    Deviations are taken from each run's own mean.

    Raises:
        ValueError: If no run has two seeds with a known spread.
    """
    known = [one for one in measures if one.std is not None]
    freedom = sum(one.seeds - 1 for one in known)
    if freedom < 1:
        raise ValueError("no run has two seeds, so there is no spread between seeds to compare with")
    # ``std`` divides by the number of seeds, so the sum of squares is seeds x std^2.
    return math.sqrt(sum(one.seeds * (one.std or 0.0) ** 2 for one in known) / freedom), freedom


def compare_score(metric: str, accepted: Measure, new: Measure, *, matters: float, level: float) -> Change:
    """Compare a score; higher is better.

    Args:
        metric: Name of the score.
        accepted: Accepted mean over at least two seeds; a paper's number may come without a spread.
        new: New mean over at least one seed, or over two seeds where the accepted mean has no spread.
        matters: The smallest difference that matters, > 0, in the metric's unit.
        level: Significance level of the test.
    """
    spread, freedom = pooled_spread([accepted, new])
    drop, error = accepted.mean - new.mean, standard_error(spread, (accepted.seeds, new.seeds))
    rule = Rule(level, matters)
    needed = None
    if rule.finds(drop, error, freedom):
        finding = Finding.REGRESSION
    elif rule.finds(-drop, error, freedom):
        finding = Finding.IMPROVEMENT
    elif drop + quantile(SURE, freedom) * error < matters:
        finding = Finding.OK
    else:
        finding = Finding.INCONCLUSIVE
        known = freedom - (new.seeds - 1)
        needed = seeds_needed(spread, (accepted.seeds, known), matters, more_than=new.seeds)
    tested = float(rule.p(drop, error, freedom)), spread, freedom
    return _change(metric, (accepted, new), rule, tested, finding, needed=needed)


def compare_gradient(metric: str, accepted: Measure, new: Measure, *, matters: float, level: float) -> Change:
    """Compare a number that is neither good nor bad: training loss or a COCOS count.

    Args:
        metric: Name of the number.
        accepted: Accepted mean over at least two seeds.
        new: New mean over at least one seed.
        matters: The smallest change that matters as a share of the accepted mean, > 0.
        level: Significance level of the test.
    """
    own, freedom = pooled_spread([accepted, new])
    least = NEGLIGIBLE * max(abs(accepted.mean), abs(new.mean))
    spread, change = max(own, least), new.mean - accepted.mean
    error = standard_error(spread, (accepted.seeds, new.seeds))
    rule = Rule(level, matters * abs(accepted.mean), both_ways=True)
    finding = Finding.CHANGED if rule.finds(change, error, freedom) else Finding.OK
    tested = float(rule.p(change, error, freedom)), spread, freedom
    return _change(metric, (accepted, new), rule, tested, finding, least=least)


def _change(
    metric: str,
    pair: tuple[Measure, Measure],
    rule: Rule,
    tested: tuple[float, float, int],
    finding: Finding,
    *,
    least: float = 0.0,
    needed: int | None = None,
) -> Change:
    """Return the comparison, with the power of its test and the difference that its test detects.

    Args:
        metric: Name of the number.
        pair: Accepted and new mean.
        rule: Rule of the test.
        tested: p-value, the spread that the test used, and its degrees of freedom.
        finding: The finding.
        least: The least spread that the test assumes.
        needed: New seeds that would settle the comparison.
    """
    (accepted, new), (p, spread, freedom) = pair, tested
    seeds = (accepted.seeds, new.seeds)
    error, least_error = standard_error(spread, seeds), standard_error(least, seeds)
    power = rule.power(rule.smallest, error, freedom, least_error=least_error)
    detectable = rule.detectable(POWER, error, freedom, least_error=least_error)
    means = (accepted.mean, new.mean)
    return Change(metric, *means, seeds, spread, freedom, p, power, detectable, needed, finding)


def seeds_needed(spread: float, accepted: tuple[int, int], matters: float, *, more_than: int) -> int | None:
    """Return how many new seeds exclude a drop that matters with probability ``POWER`` if the true drop is 0.

    Args:
        spread: Standard deviation between seeds, taken for the true deviation.
        accepted: Number of accepted seeds, and the degrees of freedom that these seeds give to the spread.
        matters: The smallest drop that matters, > 0.
        more_than: Number of new seeds that are already trained.

    Returns:
        A number above ``more_than``; ``None`` where even ``MOST_SEEDS`` new seeds do not exclude the drop, because too
        few seeds were accepted.
    """
    for count in range(max(more_than + 1, 2), MOST_SEEDS + 1):
        error = standard_error(spread, (accepted[0], count))
        if chance_to_exclude(matters, error, accepted[1] + count - 1, SURE) >= POWER:
            return count
    return None


def overall(findings: Sequence[Finding]) -> Finding:
    """Return the worst finding; ``UNKNOWN`` without any finding."""
    return next((finding for finding in SEVERITY if finding in findings), Finding.UNKNOWN)


def measure_over_seeds(values: Mapping[int, Mapping[str, float]], metric: str) -> Measure | None:
    """Return mean and spread of a metric over the seeds that have the metric; ``None`` without such a seed."""
    found = [values[seed][metric] for seed in sorted(values) if metric in values[seed]]
    return measure(np.array(found, dtype=np.float64)) if found else None
