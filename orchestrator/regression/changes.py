"""Has a baseline's score dropped? Pure statistics on the seeds of an accepted and of a new run.

Two groups of questions are asked of a suite, and a third where a drift can be tested; each group has an equal share of
the suite's false-alarm rate:

- *Scores* (recalls): one-sided, is the new mean lower? A drop is found where it is significant and the observed drop is
  at least as large as the smallest drop that matters. Where a drop that matters is neither found nor excluded, the
  finding is *inconclusive*.
- *Gradients* (training loss and COCOS counts): two-sided, has the mean moved? A change is found where it is significant
  and the observed change is at least a share of the accepted mean. A loss whose gradients changed may leave recalls
  unchanged, or raise them: the finding is *changed*, and neither better nor worse.
- *Drift*: the question of the scores, against the first accepted runs (see ``drift.py``).

Within a group every test has the same level: the group's rate divided by the number of its tests [Bonferroni] and,
where more seeds may be added after a look, by the number of looks. Each test is Student's on the cell's own spread,
with the degrees of freedom of that spread: where a cell has not changed, its accepted and its new runs are draws of one
distribution, so the level holds whatever the spreads of other cells are. (A spread over all cells has more degrees of
freedom, but calls a noisy cell among quiet cells slipped more often than stated.) Levels and powers hold for normal
values.

References:
    [Bonferroni] Dunn, Multiple comparisons among means, J. American Statistical Association 56 (1961), 52-64.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from orchestrator.regression.rule import Rule, chance_to_exclude, quantile, standard_error
from orchestrator.results.statistics import Measure, measure

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


@dataclass(frozen=True)
class Level:
    """The significance level of each test in a group.

    Attributes:
        rate: Rate of false alarms over all tests of the group and all looks, in (0, 1).
        tests: Number of tests in the group, >= 1.
        looks: How often the group may be tested, >= 1.
    """

    rate: float
    tests: int
    looks: int = 1

    @property
    def each(self) -> float:
        """The rate of false alarms of one test at one look."""
        return self.rate / (max(self.tests, 1) * self.looks)


@dataclass(frozen=True)
class Change:
    """The comparison of the accepted and the new mean of one number of a cell.

    Attributes:
        metric: Name of the number.
        accepted: Mean over the accepted seeds.
        new: Mean over the new seeds.
        seeds: Number of accepted seeds, number of new seeds.
        spread: Standard deviation between seeds that the test used; ``power`` and ``detectable`` take this spread for
            the true spread.
        p: p-value, one-sided for a drop of a score, two-sided for a number of the gradients.
        power: Probability of finding a true difference of exactly the smallest difference that matters. The power is at
            most a half: a finding needs an observed difference of at least this size, and half of the observed
            differences are smaller than the true difference.
        detectable: The true difference that is found with probability ``POWER``.
        needed: New seeds that would settle the comparison; ``None`` where the comparison is settled, or where no number
            of seeds would settle it.
        finding: The finding of the comparison.
    """

    metric: str
    accepted: float
    new: float
    seeds: tuple[int, int]
    spread: float
    p: float
    power: float
    detectable: float
    needed: int | None
    finding: Finding

    @property
    def difference(self) -> float:
        """New minus accepted, in the metric's unit."""
        return self.new - self.accepted


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


def compare_score(metric: str, accepted: Measure, new: Measure, *, matters: float, level: Level) -> Change:
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
    rule = Rule(level.each, matters)
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
    test = _Test(rule, float(rule.p(drop, error, freedom)), spread, freedom)
    return _change(metric, (accepted, new), test, finding, needed)


def compare_gradient(metric: str, accepted: Measure, new: Measure, *, matters: float, level: Level) -> Change:
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
    rule = Rule(level.each, matters * abs(accepted.mean), both_ways=True)
    finding = Finding.CHANGED if rule.finds(change, error, freedom) else Finding.OK
    test = _Test(rule, float(rule.p(change, error, freedom)), spread, freedom, least)
    return _change(metric, (accepted, new), test, finding, None)


@dataclass(frozen=True)
class _Test:
    """A test that was made: its rule, its p-value, and the spread that the test used, which is at least ``least``."""

    rule: Rule
    p: float
    spread: float
    freedom: int
    least: float = 0.0


def _change(metric: str, pair: tuple[Measure, Measure], test: _Test, finding: Finding, needed: int | None) -> Change:
    """Return the comparison, with the power of its test and the difference that its test detects."""
    accepted, new = pair
    seeds = (accepted.seeds, new.seeds)
    error, least = standard_error(test.spread, seeds), standard_error(test.least, seeds)
    power = test.rule.power(test.rule.smallest, error, test.freedom, least_error=least)
    detectable = test.rule.detectable(POWER, error, test.freedom, least_error=least)
    return Change(metric, accepted.mean, new.mean, seeds, test.spread, test.p, power, detectable, needed, finding)


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
