"""Has a baseline slipped? Pure statistics on the seeds of an accepted and of a new run.

Two groups of questions are asked of a suite, each with half of its false-alarm rate:

- *Scores* (recalls): one-sided, is the new mean lower? A drop counts when it is significant and at least as large as
  the smallest difference that matters. Where it is neither that nor surely small, the answer is *inconclusive*.
- *Gradients* (training loss and COCOS counts): two-sided, has the mean moved? It counts when it is significant and
  moved by more than a share of itself. These see what recall does not: a loss whose gradients changed.

Within a group every test has the same level: the group's rate divided by the number of its tests [Bonferroni] and,
where more seeds may be added after a look, by the number of looks. Three seeds say little about their own spread, so
the spread of a score is that of all cells of a suite together, unless the cell's own is larger.

References:
    [Bonferroni] Dunn, Multiple comparisons among means, J. American Statistical Association 56 (1961), 52-64.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from orchestrator.significance import Measure, measure

SURE = 0.95
"""With this confidence a drop that matters is excluded before a cell is called fine."""

POWER = 0.9
"""The seeds that are asked for find a drop that matters with this probability."""

NEGLIGIBLE = 0.005
"""The spread of a count between seeds is taken to be at least this share of it."""

MOST_SEEDS = 50
"""More are not asked for."""


class Finding(StrEnum):
    """What is found about one number, one cell, or a suite."""

    OK = "ok"
    """No drop that matters."""
    IMPROVEMENT = "improvement"
    """Significantly better, by a difference that matters: worth accepting."""
    REGRESSION = "regression"
    """Significantly worse, or other gradients, by a difference that matters."""
    INCONCLUSIVE = "inconclusive"
    """The seeds neither show a drop that matters nor exclude it."""
    FAILED = "failed"
    """A training of it diverged or failed: as bad as a regression."""
    UNKNOWN = "unknown"
    """There is nothing to compare with."""


SEVERITY = (
    Finding.FAILED,
    Finding.REGRESSION,
    Finding.INCONCLUSIVE,
    Finding.IMPROVEMENT,
    Finding.OK,
    Finding.UNKNOWN,
)
"""The findings, the one first that decides over others."""


@dataclass(frozen=True)
class Level:
    """How sure one test must be.

    Attributes:
        rate: Of false alarms over all tests of the group and all looks, in (0, 1).
        tests: In the group, >= 1.
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
    """One number of a cell, accepted and new.

    Attributes:
        metric: Its name.
        accepted: Mean over the accepted seeds.
        new: Mean over the new ones.
        seeds: How many are behind each.
        spread: Standard deviation between seeds that the test used.
        p: One-sided for a drop of a score, two-sided for a gradient's number.
        power: Probability of finding the smallest difference that matters.
        needed: New seeds that would settle it; ``None`` where it is settled, or where no number of them would.
        finding: What it comes to.
    """

    metric: str
    accepted: float
    new: float
    seeds: tuple[int, int]
    spread: float
    p: float
    power: float
    needed: int | None
    finding: Finding

    @property
    def difference(self) -> float:
        """New minus accepted, in the metric's unit."""
        return self.new - self.accepted


def pooled_spread(measures: Sequence[Measure]) -> tuple[float, int]:
    """Return the standard deviation between seeds over several cells, each about its own mean, and its freedom.

    Raises:
        ValueError: If none is over two seeds with a known spread.
    """
    known = [one for one in measures if one.std is not None]
    freedom = sum(one.seeds - 1 for one in known)
    if freedom < 1:
        raise ValueError("no cell has two seeds, so there is no spread between seeds to compare with")
    # ``std`` is of the population, hence the sum of squares.
    return math.sqrt(sum(one.seeds * (one.std or 0.0) ** 2 for one in known) / freedom), freedom


def compare_score(
    metric: str, accepted: Measure, new: Measure, pool: tuple[float, int], *, matters: float, level: Level
) -> Change:
    """Compare a score of which more is better.

    Args:
        metric: Its name.
        accepted: Over at least two seeds.
        new: Over at least one.
        pool: Standard deviation between seeds over the cells of the suite, and its degrees of freedom.
        matters: The smallest difference that matters, > 0, in the metric's unit.
        level: Of the group of tests.
    """
    own, _ = pooled_spread([accepted, new])
    spread, freedom = max(own, pool[0]), pool[1]
    drop = accepted.mean - new.mean
    error = spread * math.sqrt(1 / accepted.seeds + 1 / new.seeds)
    p = _upper_tail(drop, error, freedom)
    needed = None
    if p <= level.each and drop >= matters:
        finding = Finding.REGRESSION
    elif _upper_tail(-drop, error, freedom) <= level.each and -drop >= matters:
        finding = Finding.IMPROVEMENT
    elif drop + _quantile(SURE, freedom) * error < matters:
        finding = Finding.OK
    else:
        finding = Finding.INCONCLUSIVE
        needed = seeds_needed(spread, freedom, accepted.seeds, matters, more_than=new.seeds)
    power = power_of(spread, freedom, (accepted.seeds, new.seeds), matters, level.each)
    seeds = (accepted.seeds, new.seeds)
    return Change(metric, accepted.mean, new.mean, seeds, spread, p, power, needed, finding)


def compare_gradient(metric: str, accepted: Measure, new: Measure, *, matters: float, level: Level) -> Change:
    """Compare a number that is neither good nor bad: training loss or a COCOS count.

    Args:
        metric: Its name.
        accepted: Over at least two seeds.
        new: Over at least one.
        matters: The smallest change that matters as a share of the accepted mean, > 0.
        level: Of the group of tests.
    """
    own, freedom = pooled_spread([accepted, new])
    scale = max(abs(accepted.mean), abs(new.mean))
    spread = max(own, NEGLIGIBLE * scale)
    change = new.mean - accepted.mean
    error = spread * math.sqrt(1 / accepted.seeds + 1 / new.seeds)
    p = 2 * _upper_tail(abs(change), error, freedom) if error > 0 else 1.0
    smallest = matters * abs(accepted.mean)
    found = p <= level.each and abs(change) >= smallest and change != 0
    seeds = (accepted.seeds, new.seeds)
    power = power_of(spread, freedom, seeds, smallest, level.each / 2)
    finding = Finding.REGRESSION if found else Finding.OK
    return Change(metric, accepted.mean, new.mean, seeds, spread, p, power, None, finding)


def power_of(spread: float, freedom: int, seeds: tuple[int, int], difference: float, level: float) -> float:
    """Return the probability that a true difference is found significant (one-sided, normal values)."""
    from scipy.stats import nct

    error = spread * math.sqrt(1 / seeds[0] + 1 / seeds[1])
    if error == 0:
        return 1.0 if difference > 0 else 0.0
    shift = difference / error
    # Beyond this the noncentral distribution is 1 to all digits, and slow to say so.
    return 1.0 if shift > 200 else float(nct.sf(_quantile(1 - level, freedom), freedom, shift))


def seeds_needed(spread: float, freedom: int, accepted: int, matters: float, *, more_than: int) -> int | None:
    """Return how many new seeds exclude a drop that matters with ``POWER`` where there is none.

    Returns:
        A number above ``more_than``; ``None`` where even ``MOST_SEEDS`` do not, because too few were accepted.
    """
    reach = _quantile(SURE, freedom) + _quantile(POWER, freedom)
    for count in range(more_than + 1, MOST_SEEDS + 1):
        if reach * spread * math.sqrt(1 / accepted + 1 / count) < matters:
            return count
    return None


def overall(findings: Sequence[Finding]) -> Finding:
    """Return the worst of some findings; ``UNKNOWN`` where nothing could be compared."""
    return next((finding for finding in SEVERITY if finding in findings), Finding.UNKNOWN)


def measure_over_seeds(values: Mapping[int, Mapping[str, float]], metric: str) -> Measure | None:
    """Return mean and spread of a metric over the seeds that have it; ``None`` where none has."""
    found = [values[seed][metric] for seed in sorted(values) if metric in values[seed]]
    return measure(np.array(found, dtype=np.float64)) if found else None


def _upper_tail(difference: float, error: float, freedom: int) -> float:
    from scipy.special import stdtr

    if error == 0:
        return 0.0 if difference > 0 else 1.0
    return float(stdtr(freedom, -difference / error))


def _quantile(probability: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))
