"""Has a baseline's score dropped? Questions about the seeds of a new run beside those of an accepted run.

The new run is compared with the accepted one (``results.comparison.compare_alike``), and each finding is the word of a
question (``results.question``) with what matters. So difference, interval, p-value and finding are of one test.

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

``python -m tests.benchmarks regress`` states the rate of false alarms, and how often the detectable drop is found.

References:
    [Bonferroni] Dunn, Multiple comparisons among means, J. American Statistical Association 56 (1961), 52-64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from orchestrator.results.comparison import Comparison, compare_alike
from orchestrator.results.question import Direction, Pair, Question, Verdict
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Interval, Measure, pooled_spread, quantile, standard_error

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
        interval: The 95 % interval of the difference.
        p: p-value of the question, one-sided for a drop of a score, two-sided for a number of the gradients.
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
    interval: Interval
    p: float
    detectable: float
    needed: int | None
    finding: Finding

    @classmethod
    def of(
        cls, pair: Pair, accepted: Measure, new: Measure, finding: Finding, detectable: float, needed: int | None = None
    ) -> "MeanChange":
        """Return what a pair, the new candidate with the accepted one, says about both means."""
        compared = pair.comparison
        spread, freedom = _spread_of(compared, accepted, new)
        ends = compared.interval or Interval(compared.difference, compared.difference)
        p = float(pair.verdict is Verdict.TIE) if pair.p is None else pair.p
        seeds = (accepted.seeds, new.seeds)
        return cls(
            compared.metric, accepted.mean, new.mean, seeds, spread, freedom, ends, p, detectable, needed, finding
        )

    @property
    def difference(self) -> float:
        """New minus accepted, in the metric's unit."""
        return self.new - self.accepted

    @property
    def share(self) -> float | None:
        """The difference as a share of the accepted mean; ``None`` where that is 0."""
        return self.difference / abs(self.accepted) if self.accepted else None


def _spread_of(compared: Comparison, accepted: Measure, new: Measure) -> tuple[float, int]:
    """Return the standard deviation between seeds that a test used, with its degrees of freedom."""
    if compared.test is None:
        return pooled_spread([accepted, new])
    return compared.test.error / standard_error(1.0, (accepted.seeds, new.seeds)), int(compared.test.freedom)


def compare_score(accepted: Runs, new: Runs, metric: str, *, matters: float, level: float) -> MeanChange:
    """Compare a score; higher is better.

    ``accepted`` is over at least two seeds, or a paper's number without a spread, to which ``new`` then needs two.
    ``matters`` is the smallest difference that matters, > 0, in the metric's unit.
    """
    compared = compare_alike(new, accepted, metric)
    before, after = accepted.measure(metric), new.measure(metric)
    (dropped,) = Question(level, direction=Direction.BELOW).ask([compared])
    (risen,) = Question(level, direction=Direction.ABOVE).ask([compared])
    (excluded,) = Question(1 - SURE, direction=Direction.ABOVE, bound=-matters).ask([compared])
    is_large, needed = abs(compared.difference) >= matters, None
    spread, freedom = _spread_of(compared, before, after)
    if dropped.verdict is Verdict.WORSE and is_large:
        finding = Finding.REGRESSION
    elif risen.verdict is Verdict.BETTER and is_large:
        finding = Finding.IMPROVEMENT
    elif excluded.verdict is Verdict.BETTER:
        finding = Finding.OK
    else:
        finding = Finding.INCONCLUSIVE
        needed = seeds_needed(spread, (before.seeds, freedom - (after.seeds - 1)), matters, more_than=after.seeds)
    error = standard_error(spread, (before.seeds, after.seeds))
    smallest = detectable(error, freedom, matters=matters, level=level)
    return MeanChange.of(dropped, before, after, finding, smallest, needed)


def compare_gradient(accepted: Runs, new: Runs, metric: str, *, matters: float, level: float) -> MeanChange:
    """Compare training loss or a COCOS count, which is neither good nor bad; half of ``level`` is for each sign.

    ``matters`` is the smallest change that matters as a share of the accepted mean, > 0.
    """
    before, after = accepted.measure(metric), new.measure(metric)
    least = NEGLIGIBLE * max(abs(before.mean), abs(after.mean))
    compared = compare_alike(new, accepted, metric, least_spread=least)
    (moved,) = Question(level).ask([compared])
    bound = matters * abs(before.mean)
    is_found = moved.verdict is not Verdict.TIE and abs(compared.difference) >= bound
    spread, freedom = _spread_of(compared, before, after)
    error = standard_error(spread, (before.seeds, after.seeds))
    smallest = detectable(error, freedom, matters=bound, level=level / 2)
    return MeanChange.of(moved, before, after, Finding.CHANGED if is_found else Finding.OK, smallest)


def level_of(rate: float, tests: int, looks: int = 1) -> float:
    """Return the significance level of one test at one look, where a group of tests has a rate of false alarms."""
    return rate / (max(tests, 1) * looks)


def detectable(error: float, freedom: int, *, matters: float, level: float) -> float:
    """Return the smallest true difference that is found with probability ``POWER``, >= ``matters``.

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
