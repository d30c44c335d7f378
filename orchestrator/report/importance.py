"""How much of the metric's variance each searched parameter explains by itself.

The trials are cut into groups by the parameter's value (quantiles of a number, values of a word), and

    share = (SS_between - df_between * MS_within) / SS_total,

the bias-corrected correlation ratio epsilon squared [Kelley1935], which is 0 in expectation for a parameter without
effect, with any number of groups. The share includes effects of any shape of a single parameter. Interactions are not
counted, and a parameter that the sampler hardly varies after the first trials looks less important than it is.

References:
    [Kelley1935] Kelley, An unbiased correlation ratio measure. PNAS 21(9):554-559.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

FEWEST = 10
"""Fewest trials with which a share is given."""

MOST_GROUPS = 8


def main_effect(values: Sequence[Any], metric: Sequence[float]) -> float | None:
    """Return the share of the metric's variance that one parameter explains.

    Args:
        values: The parameter in each of N trials; numbers, or words.
        metric: Value of each trial, N finite numbers.

    Returns:
        A share in [0, 1]; ``None`` with fewer than ``FEWEST`` trials, or without variance.
    """
    y = np.asarray(metric, dtype=float)
    group = _groups(values)
    counts = np.bincount(group)
    total = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    if len(y) < FEWEST or total <= 1e-12 or len(counts) < 2 or len(y) <= len(counts):
        return None
    means = np.bincount(group, weights=y) / counts
    between = float((counts * (means - y.mean()) ** 2).sum())
    noise = (total - between) / (len(y) - len(counts))
    return float(np.clip((between - (len(counts) - 1) * noise) / total, 0, 1))


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's correlation with mean ranks for ties; ``None`` below three pairs or for constant values."""
    a, b = _ranks(x), _ranks(y)
    if len(a) < 3 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _groups(values: Sequence[Any]) -> np.ndarray:
    """Return the group of each trial, numbered from 0 without a gap."""
    if any(isinstance(value, str | bool) for value in values):
        return np.unique([str(value) for value in values], return_inverse=True)[1]
    ranks = _ranks(values)
    groups = max(2, min(MOST_GROUPS, round(len(values) ** 0.5)))
    # Equal values share a rank, so they share a group as well.
    cut = np.ceil(ranks * groups / max(len(values), 1)).astype(int)
    return np.unique(cut, return_inverse=True)[1]


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return ranks from 1; equal values share the mean of their ranks."""
    array = np.asarray(values, dtype=float)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
