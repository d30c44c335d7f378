"""How many seeds would tell two candidates apart, if their difference were as large as it was measured."""

import math

POWER = 0.8
"""Share of the studies in which the difference is to be found."""

MOST = 200
"""More seeds than anybody trains."""


def needed_seeds(effect: float, level: float) -> int | None:
    """Return the seeds of each candidate with which a test finds a difference in ``POWER`` of the studies.

    The two-sample t-test of normal values with equal spread, whose statistic has a noncentral t-distribution; a lead in
    the other direction is left out. A measured difference is itself uncertain, and of a winner too large on average, so
    the true number may well be larger.

    Args:
        effect: Difference of the means in standard deviations.
        level: Two-sided, of the test.

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
