"""How much of the level each look at accumulating data may use, so that many looks err no more often than one test.

A look (an interim analysis) tests the values so far; candidates that leave a race at a look are tested at it.
A spending function of the fraction t of the data limits the level used up to t [LanDeMets1983]. Each look gets the
increase since the previous look, and a nominal level that uses exactly this increase, given that no earlier look found
a difference. ``nominal_levels`` computes the nominal levels by the recursion of [Armitage1969]: between two looks the
standardised sum of the differences moves as Brownian motion. Nominal levels for normal values are applied to the
p-values of Welch's test (the significance-level approach of [Jennison2000], section 4.4).

References:
    [Armitage1969] Armitage, McPherson and Rowe, Repeated significance tests on accumulating data, J. R. Statist. Soc. A
        132, 235-244.
    [LanDeMets1983] Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 659-663.
    [KimDeMets1987] Kim and DeMets, Design and analysis of group sequential tests based on the type I error spending
        rate function, Biometrika 74, 149-154.
    [Jennison2000] Jennison and Turnbull, Group Sequential Methods with Applications to Clinical Trials, chapters 3-7.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

POWER = 3
"""The fraction t of the data uses t^POWER of the level [KimDeMets1987]: little at first, like O'Brien and Fleming."""

POINTS = 401
"""Number of points of the grid over which a density is integrated; odd, for Simpson's rule."""

STEPS = 48
"""Bisections of the interval in which a boundary lies."""


def levels_of_looks(seeds: Sequence[int], most: int, level: float, *, last: bool) -> tuple[float, ...]:
    """Return the nominal level of each look of a plan that may end at any look.

    Args:
        seeds: Number of a candidate's seeds at each look, increasing, >= 1.
        most: Largest number of seeds that a candidate can get, >= the last of ``seeds``.
        level: Level of the whole plan.
        last: Whether the last of these looks ends the plan, and so gets the whole remaining level.

    Returns:
        Two-sided nominal levels, one per look.
    """
    parts = [count / most for count in seeds]
    spent = [level * part**POWER for part in parts]
    if last:
        spent[-1] = level
    increases = np.diff([0.0, *spent])
    return nominal_levels(tuple(parts), tuple(float(increase) for increase in increases))


@lru_cache(maxsize=1024)
def nominal_levels(parts: tuple[float, ...], increases: tuple[float, ...]) -> tuple[float, ...]:
    """Return the two-sided nominal levels at which looks use given increases of the level [Armitage1969].

    Args:
        parts: Fraction of the data at each look, increasing, in (0, 1].
        increases: Probability, without a difference, that a look is the first to find a difference; each > 0.

    Returns:
        The p-value up to which each look finds a difference.

    Example:
        >>> [round(level, 4) for level in nominal_levels((0.5, 1.0), (0.025, 0.025))]
        [0.025, 0.0336]
    """
    from scipy.special import ndtr

    levels: list[float] = []
    grid, mass, before = np.zeros(1), np.ones(1), 0.0
    for part, increase in zip(parts, increases, strict=True):
        step = math.sqrt(part - before)
        boundary = _boundary(grid, mass, step, increase)
        levels.append(2 * float(ndtr(-boundary / math.sqrt(part))))
        inside = np.linspace(-boundary, boundary, POINTS)
        density = np.exp(-(((inside[:, None] - grid) / step) ** 2) / 2) @ mass / (step * math.sqrt(2 * math.pi))
        grid, mass, before = inside, density * _simpson(inside), part
    return tuple(levels)


def _boundary(grid: NDArray[np.float64], mass: NDArray[np.float64], step: float, increase: float) -> float:
    """Return the distance from 0 that a sum on a grid exceeds after one more step with probability ``increase``."""
    from scipy.special import ndtr

    low, high = 0.0, float(np.abs(grid).max()) + 40 * step
    for _ in range(STEPS):
        middle = (low + high) / 2
        beyond = float((mass * (ndtr((-middle - grid) / step) + ndtr((grid - middle) / step))).sum())
        low, high = (middle, high) if beyond > increase else (low, middle)
    return high


def _simpson(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.ones(len(grid))
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    return weights * (grid[1] - grid[0]) / 3
