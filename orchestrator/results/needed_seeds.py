"""How many seeds would tell two candidates apart, if their difference were as large as it was measured.

References:
    [Guenther1981] Guenther, Sample size formulas for normal theory t tests, The American Statistician 35, 243-244.
"""

import math
from statistics import NormalDist

POWER = 0.8
"""Share of the studies in which the difference is to be found."""

MOST = 200
"""More seeds than anybody trains."""


def needed_seeds(effect: float, level: float) -> int | None:
    """Return the seeds of each candidate with which a test finds a difference in ``POWER`` of the studies.

    The normal approximation of the two-sample t-test with the correction of [Guenther1981]. A measured difference is
    itself uncertain, and of a winner too large on average, so the true number may well be larger.

    Args:
        effect: Difference of the means in standard deviations.
        level: Two-sided, of the test.

    Returns:
        The number, at least 2; ``None`` where it is above ``MOST``.
    """
    beyond, power = NormalDist().inv_cdf(1 - level / 2), NormalDist().inv_cdf(POWER)
    if abs(effect) < 1e-6:
        return None
    seeds = max(2, math.ceil(2 * ((beyond + power) / effect) ** 2 + beyond**2 / 4))
    return seeds if seeds <= MOST else None
