"""The best value that a search of a given size is expected to find, estimated from the values of one search.

Of n values sorted upwards, the best of k that are drawn without replacement is the i-th with probability
C(i - 1, k - 1) / C(n, k). The mean of the best under these probabilities is an unbiased estimate of the expected best
of k independent trials, for k up to n. The estimate of [Dodge2019] draws with replacement, which can repeat a value and
is too low, most of all for k near n [Tang2020]. The band contains the best of k values in 8 of 10 draws; at k = n only
one draw is possible and the band has no width, which tells nothing about another search.

The values are assumed exchangeable. Trials of a sampler that learns are not exchangeable: its later trials are better
than its earlier trials, so the expected best of few trials is too high.

References:
    [Dodge2019] Dodge et al., Show Your Work: Improved Reporting of Experimental Results. EMNLP 2019, arXiv:1909.03004
    [Tang2020] Tang et al., Showing Your Work Doesn't Always Work. ACL 2020, arXiv:2004.13705
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

BAND = (0.1, 0.9)
"""Quantiles of the best of k draws that bound the band."""

RESAMPLES = 1000
"""Resamples of the bootstrap that compares two curves."""

BLOCK = 50
"""Resamples that are drawn at a time, a divisor of ``RESAMPLES``, so that a block fits a processor's cache."""


def expected_best(values: Values, draws: Sequence[int]) -> Values:
    """Return the expected best of values drawn without replacement.

    Args:
        values: Values of a search, shape (..., n), finite; larger is better.
        draws: Numbers of drawn values, each in [1, n].

    Returns:
        The expected best for each number, shape (..., len(draws)).

    Example:
        >>> expected_best(np.array([1.0, 2.0, 4.0]), [1, 2, 3]).round(3).tolist()
        [2.333, 3.333, 4.0]
    """
    count = values.shape[-1]
    weights = np.stack([_chosen(0, drawn - 1, count, drawn) for drawn in draws], axis=-1)
    return np.asarray(np.sort(values, axis=-1) @ weights)


def best_quantiles(values: Values, draws: Sequence[int], levels: Sequence[float] = BAND) -> Values:
    """Return quantiles of the best of values drawn without replacement, shape (len(levels), len(draws)).

    A quantile is the smallest value that the best does not exceed with at least the probability ``level``.
    """
    count, ordered = len(values), np.sort(values)
    found = np.empty((len(levels), len(draws)))
    for column, drawn in enumerate(draws):
        probability = _chosen(1, drawn, count, drawn)
        for row, level in enumerate(levels):
            found[row, column] = ordered[int((probability < level - 1e-12).sum())]
    return found


class Curve:
    """The expected best of one search over the number of drawn values, see ``expected_best``.

    Each point is computed when it is first asked for, and kept: a search is compared with many others, in several units
    of the budget.

    Args:
        values: Values of the search, shape (n,).
    """

    def __init__(self, values: Values) -> None:
        self.count = len(values)
        self._values = np.sort(values)
        self._points = np.full(self.count + 1, np.nan)

    def at_budgets(self, cost: float, budgets: Values) -> Values:
        """Return the expected best for budgets, interpolated linearly between whole numbers of trials.

        Args:
            cost: Mean cost of a trial, > 0, in the unit of the budgets.
            budgets: Budgets, each from ``cost`` to n times ``cost``.
        """
        draws = budgets / cost
        whole = np.clip(np.floor(draws + 1e-9).astype(int), 1, self.count)
        lower, upper = self._at(np.stack([whole, np.minimum(whole + 1, self.count)]))
        return np.asarray(lower + (upper - lower) * np.clip(draws - whole, 0.0, 1.0))

    def _at(self, draws: NDArray[np.int_]) -> Values:
        """Return the expected best for each number of drawn values, in [1, n], in the shape of the numbers."""
        new = np.unique(draws[np.isnan(self._points[draws])])
        if new.size:
            self._points[new] = expected_best(self._values, new.tolist())
        return self._points[draws]


def lead_probability(first: Values, second: Values, draws: int, *, seed: int = 0) -> float:
    """Return how often the first search has the higher expected best when the trials of both are resampled.

    Trials are resampled with replacement (a bootstrap over trials); equal values count half.

    Args:
        first: Values of the first search, shape (n,).
        second: Values of the second search, shape (m,).
        draws: Number of trials of each search, at most n and m.
        seed: Seed of the resampling.
    """
    generator = np.random.default_rng(seed)

    def resampled(values: Values) -> Values:
        count, order = len(values), np.argsort(values)
        ordered, weights = values[order], _chosen(0, draws - 1, count, draws)
        # Sorted as small integers, the ranks of a resample take a quarter of the time that its values take.
        ranks = np.argsort(order).astype(np.min_scalar_type(count))
        blocks = (ranks[generator.integers(0, count, (BLOCK, count))] for _ in range(RESAMPLES // BLOCK))
        return np.concatenate([ordered[np.sort(block, axis=-1, kind="stable")] @ weights for block in blocks])

    ours, theirs = resampled(first), resampled(second)
    return float((ours > theirs).mean() + (ours == theirs).mean() / 2)


def crossings(first: Curve, second: Curve, costs: tuple[float, float], points: int = 200) -> list[tuple[float, bool]]:
    """Return where the curves of two searches cross, over the budgets that both searches reach.

    Args:
        first: Curve of the first search.
        second: Curve of the second search.
        costs: Mean cost of a trial of each search, > 0, in the unit of the budget.
        points: Number of budgets at which the curves are compared.

    Returns:
        For each crossing the budget, and whether the first search is ahead after it.
    """
    low, high = max(costs), min(first.count * costs[0], second.count * costs[1])
    if high <= low:
        return []
    budgets = np.geomspace(low, high, points)
    lead = first.at_budgets(costs[0], budgets) - second.at_budgets(costs[1], budgets)
    signs = [(float(budget), bool(value > 0)) for budget, value in zip(budgets, lead, strict=True) if abs(value) > 1e-9]
    return [now for before, now in pairwise(signs) if before[1] is not now[1]]


def chance_to_improve(trials: int, further: int) -> float:
    """Return how likely further trials surpass the best of the trials so far: each is equally likely to be the best."""
    return further / (trials + further)


def _chosen(fewest: int, chosen: int, count: int, drawn: int) -> Values:
    """Return C(a, chosen) / C(count, drawn) for a = fewest, ..., fewest + count - 1; 0 where a < chosen."""
    logs = _log_factorials(count)
    total = logs[count] - logs[drawn] - logs[count - drawn]
    few, end = max(0, chosen - fewest), fewest + count
    there, left = logs[fewest + few : end], logs[fewest + few - chosen : end - chosen]
    return np.concatenate([np.zeros(few), np.exp(there - logs[chosen] - left - total)])


@lru_cache(maxsize=64)
def _log_factorials(count: int) -> Values:
    """Return the logarithms of 0!, 1!, ... count!, cached because figures need them repeatedly."""
    return np.array([math.lgamma(number + 1) for number in range(count + 1)])
