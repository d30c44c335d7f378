"""The luck of repeated searches: how far the best setting moves from one search to the next, by the trials of them all.

A few searches show little of their luck. A loss whose bad searches are rare leads its equal where none of them is among
the few, and then its searches also look alike. The trials of these searches say more. The i-th trial of another search
is taken to be the i-th trial of any of these R searches, each with probability 1 / R, independently of the others:

    P(best of another search <= x) = product over i of F_i(x)     F_i: share of the R searches whose i-th trial is <= x

from which the variance of the best follows. So published settings, with which each search begins, are in each of them,
and the later trials of a sampler that learns are later ones. A trial that was not trained to its end cannot be best.

The values include the noise of seeds, and a sampler that learns depends on its first trials. So this variance decides
nothing alone: it is a least variance of a loss, and only beside a loss of which it is far smaller (``comparison``).
"""

from collections.abc import Sequence

import numpy as np


def variance_of_best(searches: Sequence[Sequence[float | None]]) -> float | None:
    """Return the variance of the best value over searches like these.

    Args:
        searches: For each search the values of its trials in their order, ``None`` of a trial that was not trained to
            its end; larger is better.

    Returns:
        The variance, >= 0; ``None`` where no search has two values, so that there is nothing to choose from.

    Example:
        >>> variance_of_best([[1.0, 2.0], [1.0, 5.0]])
        2.25
    """
    longest = max(map(len, searches), default=0)
    values = np.full((len(searches), longest), -np.inf)
    for row, of_search in zip(values, searches, strict=True):
        row[: len(of_search)] = [-np.inf if value is None else value for value in of_search]
    if (np.isfinite(values).sum(1) < 2).all():
        return None
    support = np.unique(values[np.isfinite(values)])
    below = np.prod((values[None] <= support[:, None, None]).mean(1), axis=1)
    none = np.prod(np.isneginf(values).mean(0))
    weights = np.diff(below, prepend=none) / (1 - none)
    return float(weights @ (support - weights @ support) ** 2)
