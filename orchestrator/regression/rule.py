"""The rule by which a difference of two means is found, and how often the rule finds a true difference.

The means of m and n independent normal values of one spread sigma differ by D, whose standard error is
e = sigma sqrt(1/m + 1/n). The spread is estimated with ``freedom`` degrees of freedom from deviations about the two
means, so the estimate is independent of D, and is sigma times the square root of a chi-square value over ``freedom``.
With r = estimate / sigma, and t Student's quantile of the test's level, the rule finds a difference where

    D >= max(smallest, t e r)                 (either sign of D where the rule looks both ways)

Both conditions belong to the rule, so both belong to its power, which is the mean over r of

    P(D >= max(smallest, t e r) | r) = Phi((true difference - max(smallest, t e r)) / e)

A true difference of exactly ``smallest`` is therefore found in at most half of the cases, with any number of seeds:
half of the observed differences are smaller than the true difference. ``detectable`` says which true difference a rule
finds with a given probability.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
