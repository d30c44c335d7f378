"""Has a baseline's score dropped? Pure statistics on the seeds of an accepted and of a new run.

Two groups of questions are asked of a suite, and a third where a drift can be tested. Each group has an equal share of
the suite's false-alarm rate:

- *Scores* (recalls): one-sided, is the new mean lower? A drop is found where it is significant and the observed drop is
  at least as large as the smallest drop that matters. Where a drop that matters is neither found nor excluded, the
  finding is *inconclusive*.
- *Gradients* (training loss and COCOS counts): two-sided, has the mean moved? A change is found where it is significant
  and the observed change is at least a share of the accepted mean. A loss whose gradients changed may leave recalls
  unchanged, or raise them: the finding is *changed*, and neither better nor worse.
- *Drift*: the question of the scores, against the first accepted runs (``verdict.py``).

Within a group every test has the same level. It is the group's rate divided by the number of its tests [Bonferroni]
and, where more seeds may be added after a look, by the number of looks. Each test is Student's on the cell's own
spread, with the degrees of freedom of that spread. Where a cell has not changed, its accepted and its new runs are
draws of one distribution, so the level holds whatever the spreads of other cells are. (A spread over all cells has more
degrees of freedom, but calls a noisy cell among quiet cells a regression more often than stated. Welch's test would
give away degrees of freedom for unequal spreads, which an unchanged cell does not have.) Levels hold for normal values.

The means of m and n independent normal values of one spread sigma differ by D, whose standard error is
e = sigma sqrt(1/m + 1/n). The spread is estimated with ``freedom`` degrees of freedom from deviations about the two
means, so the estimate is independent of D. The estimate is sigma times the square root of a chi-square value over
``freedom``. With r = estimate / sigma, and t Student's quantile of the test's level, a difference is found where

    D >= max(matters, t e r)

Both conditions belong to the probability of finding a true difference, which is the mean over r of

    P(D >= max(matters, t e r) | r) = Phi((true difference - max(matters, t e r)) / e)

So a true difference of exactly ``matters`` is found in at most half of the cases, with any number of seeds. Half of the
observed differences are smaller than the true difference.

Student's test is that of ``results/statistics.py``; the rules below are this module's own, because they also ask
whether a difference matters.

References:
    [Bonferroni] Dunn, Multiple comparisons among means, J. American Statistical Association 56 (1961), 52-64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orchestrator.results.statistics import (
    Interval,
    Measure,
    around,
    one_sided,
    pooled_spread,
    quantile,
    standard_error,
)

QUANTILES = 400
"""Quantiles of the estimated spread over which a probability is averaged; its error is below 0.001."""

SURE = 0.95
"""Confidence with which a drop that matters must be excluded before a cell is called ``ok``."""

POWER = 0.9
"""Probability of finding the detectable drop, and probability that the needed seeds settle a cell."""

NEGLIGIBLE = 0.005
"""The test takes a count's spread between seeds to be at least this share of the count."""

MOST_SEEDS = 50
"""Most seeds that a comparison can need."""


class Finding(StrEnum):
    """The finding about one number, one cell, or a suite; the worst is the first."""

    FAILED = "failed"
    """A training of the cell diverged or failed: as bad as a regression."""
    REGRESSION = "regression"
    """Significantly worse, by a difference that matters."""
    CHANGED = "changed"
    """Other gradients, by a difference that matters, without a score that is significantly worse."""
    INCONCLUSIVE = "inconclusive"
    """The seeds neither show a drop that matters nor exclude it."""
    IMPROVEMENT = "improvement"
    """Significantly better, by a difference that matters: worth accepting."""
    OK = "ok"
    """No drop that matters."""
    IDENTICAL = "identical"
    """Every seed that the accepted run has too gave the accepted numbers to the last digit."""
    UNKNOWN = "unknown"
    """No reference exists."""


ALARMS = (Finding.FAILED, Finding.REGRESSION, Finding.CHANGED)
"""Findings for which ``regress`` ends with exit code 5."""


def overall(findings: Sequence[Finding]) -> Finding:
    """Return the worst finding, which is that of the whole; ``UNKNOWN`` without any finding."""
    return next((finding for finding in Finding if finding in findings), Finding.UNKNOWN)


@dataclass(frozen=True)
class MeanChange:
    """The comparison of the accepted and the new mean of one number of a cell.

    Attributes:
        seeds: Number of accepted seeds, number of new seeds.
        spread: Standard deviation between seeds that the test used.
        freedom: Degrees of freedom of the estimate of the spread.
        p: p-value, one-sided for a drop of a score, two-sided for a number of the gradients.
        detectable: The true difference that is found with probability ``POWER``, taking ``spread`` for the true spread.
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
    def interval(self) -> Interval:
        """The 95 % interval of the difference."""
        return around(self.difference, standard_error(self.spread, self.seeds), self.freedom)


def compare_score(metric: str, accepted: Measure, new: Measure, *, matters: float, level: float) -> MeanChange:
    """Compare a score; higher is better.

    ``accepted`` is over at least two seeds, or a paper's number without a spread, to which ``new`` then needs two.
    ``matters`` is the smallest difference that matters, > 0, in the metric's unit.
    """
    spread, freedom = pooled_spread([accepted, new])
    seeds = (accepted.seeds, new.seeds)
    drop, error, needed = accepted.mean - new.mean, standard_error(spread, seeds), None
    if is_found(drop, error, freedom, matters=matters, level=level):
        finding = Finding.REGRESSION
    elif is_found(-drop, error, freedom, matters=matters, level=level):
        finding = Finding.IMPROVEMENT
    elif drop + quantile(SURE, freedom) * error < matters:
        finding = Finding.OK
    else:
        finding = Finding.INCONCLUSIVE
        needed = seeds_needed(spread, (accepted.seeds, freedom - (new.seeds - 1)), matters, more_than=new.seeds)
    p, minimum = float(one_sided(drop, error, freedom)), detectable(error, freedom, matters=matters, level=level)
    return MeanChange(metric, accepted.mean, new.mean, seeds, spread, freedom, p, minimum, needed, finding)


def compare_gradient(metric: str, accepted: Measure, new: Measure, *, matters: float, level: float) -> MeanChange:
    """Compare training loss or a COCOS count, which is neither good nor bad; half of ``level`` is for each sign.

    ``matters`` is the smallest change that matters as a share of the accepted mean, > 0.
    """
    own, freedom = pooled_spread([accepted, new])
    spread = max(own, NEGLIGIBLE * max(abs(accepted.mean), abs(new.mean)))
    seeds = (accepted.seeds, new.seeds)
    change, error = abs(new.mean - accepted.mean), standard_error(spread, seeds)
    rule = {"matters": matters * abs(accepted.mean), "level": level / 2}
    finding = Finding.CHANGED if is_found(change, error, freedom, **rule) else Finding.OK
    p, minimum = min(1.0, 2 * float(one_sided(change, error, freedom))), detectable(error, freedom, **rule)
    return MeanChange(metric, accepted.mean, new.mean, seeds, spread, freedom, p, minimum, None, finding)


def level_of(rate: float, tests: int, looks: int = 1) -> float:
    """Return the significance level of one test at one look, where a group of tests has a rate of false alarms."""
    return rate / (max(tests, 1) * looks)


def is_found(size: ArrayLike, error: ArrayLike, freedom: int, *, matters: float, level: float) -> NDArray[np.bool_]:
    """Say whether each observed difference above 0 is significant at a one-sided level, and large enough to matter."""
    sizes = np.asarray(size)
    return np.asarray((one_sided(size, error, freedom) <= level) & (sizes >= matters) & (sizes > 0))


def detectable(error: float, freedom: int, *, matters: float, level: float) -> float:
    """Return the smallest true difference that ``is_found`` with probability ``POWER``, >= ``matters``.

    Args:
        error: True standard error of the observed difference, >= 0.
        freedom: Degrees of freedom of the estimate of the spread.
        matters: The smallest observed difference that matters, >= 0.
        level: One-sided significance level of the test.
    """
    from scipy.optimize import brentq
    from scipy.special import gammaincinv, ndtr, ndtri

    if error == 0:
        return matters
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    ratios = np.sqrt(2 * gammaincinv(freedom / 2, middles) / freedom)
    bounds = np.maximum(matters, quantile(1 - level, freedom) * error * ratios)
    # A true difference so far above the largest bound is found more often, whatever the estimate of the spread.
    high = float(bounds.max() + (1 + ndtri(POWER)) * error)
    return float(brentq(lambda true: ndtr((true - bounds) / error).mean() - POWER, matters, high, rtol=1e-6))


def seeds_needed(spread: float, accepted: tuple[int, int], matters: float, *, more_than: int) -> int | None:
    """Return how many new seeds exclude a drop that matters with probability ``POWER`` if the true drop is 0.

    A drop D with the estimated error e r is excluded where D + t e r < matters, with t Student's quantile of ``SURE``.
    So (matters - D) / (e r), which has a noncentral t-distribution, has to be above t.

    Args:
        spread: Standard deviation between seeds, taken for the true deviation.
        accepted: Number of accepted seeds, and the degrees of freedom that these seeds give to the spread.
        matters: The smallest drop that matters, > 0.
        more_than: Number of new seeds that are already trained.

    Returns:
        A number above ``more_than``; ``None`` where even ``MOST_SEEDS`` new seeds do not exclude the drop, because too
        few seeds were accepted.
    """
    from scipy.special import nctdtr

    for count in range(max(more_than + 1, 2), MOST_SEEDS + 1):
        error, freedom = standard_error(spread, (accepted[0], count)), accepted[1] + count - 1
        if error == 0 or 1 - nctdtr(freedom, matters / error, quantile(SURE, freedom)) >= POWER:
            return count
    return None
