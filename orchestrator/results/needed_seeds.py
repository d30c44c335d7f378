"""How many seeds would tell two candidates apart, if their true difference were as large as the measured one."""

import math

POWER = 0.8
"""Share of studies in which the test is to find the difference."""

MOST = 200
"""Largest number of seeds of a candidate that is considered."""


def needed_seeds(effect: float, level: float) -> int | None:
    """Return the seeds of each candidate with which a test finds a difference in ``POWER`` of the studies.

    The test is the two-sample t-test of normal values with equal spread, whose statistic has a noncentral
    t-distribution; leads in the wrong direction are not counted. A measured difference is itself uncertain, and the
    difference of a winner is too large on average, so the true number may well be larger.

    Args:
        effect: Difference of the means in standard deviations.
        level: Two-sided level of the test, in (0, 1).

    Returns:
        The number, at least 2; ``None`` where it is above ``MOST``.

    Example:
        >>> needed_seeds(1.5, 0.05)
        9
    """
    from scipy.special import nctdtr, stdtrit

    for seeds in range(2, MOST + 1):
        freedom = 2 * (seeds - 1)
        beyond = float(stdtrit(freedom, 1 - level / 2))
        if 1 - float(nctdtr(freedom, abs(effect) * math.sqrt(seeds / 2), beyond)) >= POWER:
            return seeds
    return None
