"""The best value that a search of a given size is expected to find, from the values of a search that was done.

Of n values sorted upwards, the best of k that are drawn without replacement is the i-th with probability
C(i - 1, k - 1) / C(n, k). The mean of the best under these probabilities is an unbiased estimate of the expected best
of k independent trials, for k up to n. [Dodge2019] draws with replacement, which takes the same value several times and
is too low, most of all for k near n [Tang2020]. The band holds the best of k draws in 8 of 10 such draws; at k = n
there is one draw only, and the band has no width, which says nothing about another search.

The values are taken as exchangeable. Trials of a sampler that learns are not: its later trials are better than its
earlier ones, so the expected best of few trials is too high for them.

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
"""Quantiles of the best of k draws."""

RESAMPLES = 1000
"""Of the bootstrap by which two curves are compared."""

BLOCK = 50
"""Resamples that are drawn at a time, a divisor of ``RESAMPLES``: those of a long search fit a processor's cache."""


def expected_best(values: Values, draws: Sequence[int]) -> Values:
    """Return the expected best of so many values drawn without replacement.

    Args:
        values: Shape (..., n), finite; larger is better.
        draws: Each in [1, n].

    Returns:
        Shape (..., len(draws)).

    Example:
        >>> expected_best(np.array([1.0, 2.0, 4.0]), [1, 2, 3]).round(3).tolist()
        [2.333, 3.333, 4.0]
    """
    count = values.shape[-1]
    weights = np.stack([_chosen(0, drawn - 1, count, drawn) for drawn in draws], axis=-1)
    return np.asarray(np.sort(values, axis=-1) @ weights)


def best_quantiles(values: Values, draws: Sequence[int], levels: Sequence[float] = BAND) -> Values:
    """Return quantiles of the best of so many values drawn without replacement, shape (len(levels), len(draws)).

    A quantile is the smallest value that the best does not exceed with at least its probability.
    """
    count, ordered = len(values), np.sort(values)
    found = np.empty((len(levels), len(draws)))
    for column, drawn in enumerate(draws):
        probability = _chosen(1, drawn, count, drawn)
        for row, level in enumerate(levels):
            found[row, column] = ordered[int((probability < level - 1e-12).sum())]
    return found


def at_budgets(values: Values, cost: float, budgets: Values) -> Values:
    """Return the expected best for budgets, between whole numbers of trials on a straight line.

    Args:
        values: Shape (..., n), see ``expected_best``.
        cost: Cost of a trial on average, > 0, in the unit of the budgets.
        budgets: Each from ``cost`` to n times ``cost``.
    """
    draws = budgets / cost
    whole = np.clip(np.floor(draws + 1e-9).astype(int), 1, values.shape[-1])
    after = np.minimum(whole + 1, values.shape[-1])
    # Most budgets of a curve lie between the same whole numbers as others.
    asked, places = np.unique(np.stack([whole, after]), return_inverse=True)
    lower, upper = expected_best(values, asked.tolist())[places.reshape(2, -1)]
    return np.asarray(lower + (upper - lower) * np.clip(draws - whole, 0.0, 1.0))


def lead_probability(first: Values, second: Values, draws: int, *, seed: int = 0) -> float:
    """Return how often the expected best of the first is above the second's when the trials are drawn anew.

    Both are resampled with replacement (a bootstrap over trials); equal values count half.

    Args:
        first: Values of one search, shape (n,).
        second: Values of the other, shape (m,).
        draws: Trials of each, at most n and m.
        seed: Seed of the resampling.
    """
    generator = np.random.default_rng(seed)

    def resampled(values: Values) -> Values:
        shape = (BLOCK, len(values))
        blocks = (values[generator.integers(0, len(values), shape)] for _ in range(RESAMPLES // BLOCK))
        return np.concatenate([expected_best(block, [draws])[:, 0] for block in blocks])

    ours, theirs = resampled(first), resampled(second)
    return float((ours > theirs).mean() + (ours == theirs).mean() / 2)


def crossings(first: Values, second: Values, costs: tuple[float, float], points: int = 200) -> list[tuple[float, bool]]:
    """Return where the curves of two searches cross, over the budgets that both have.

    Args:
        first: Values of one search.
        second: Values of the other.
        costs: Cost of a trial of each loss on average, > 0, in the unit of the budget.
        points: Budgets at which the curves are compared.

    Returns:
        For each crossing the budget, and whether the first is ahead after it.
    """
    low, high = max(costs), min(len(first) * costs[0], len(second) * costs[1])
    if high <= low:
        return []
    budgets = np.geomspace(low, high, points)
    lead = at_budgets(first, costs[0], budgets) - at_budgets(second, costs[1], budgets)
    signs = [(float(budget), bool(value > 0)) for budget, value in zip(budgets, lead, strict=True) if abs(value) > 1e-9]
    return [now for before, now in pairwise(signs) if before[1] is not now[1]]


def chance_to_improve(trials: int, further: int) -> float:
    """Return how likely the best of trials is surpassed by further ones of the same kind: the best is any of them."""
    return further / (trials + further)


def _chosen(fewest: int, chosen: int, count: int, drawn: int) -> Values:
    """Return C(available, chosen) / C(count, drawn) for ``count`` numbers available from ``fewest`` on.

    Where fewer are available than are chosen, it is 0.
    """
    logs = _log_factorials(count)
    total = logs[count] - logs[drawn] - logs[count - drawn]
    few, end = max(0, chosen - fewest), fewest + count
    there, left = logs[fewest + few : end], logs[fewest + few - chosen : end - chosen]
    return np.concatenate([np.zeros(few), np.exp(there - logs[chosen] - left - total)])


@lru_cache(maxsize=64)
def _log_factorials(count: int) -> Values:
    """Return the logarithms of 0!, 1!, ... count!; figures ask for the same ones again and again."""
    return np.array([math.lgamma(number + 1) for number in range(count + 1)])
