"""Seeds that collapse: trainings of a loss far below its others, which a mean over few seeds shows by chance or not.

Where one seed in ten ends 8 standard deviations lower, five seeds of a setting show none in 59 % of cases. Then the
setting leads its equal by 0.8 standard deviations, and no test of its seeds can see that. Other settings of its loss
may show it. A seed collapsed where it is more than ``FAR`` spreads below the median of its setting. The spread is that
of all settings of the loss, by absolute deviations from their medians, which collapsed seeds hardly move:

    spread = 1.4826 median |y - median of the setting|      without the smallest deviation of each setting

``docs/evidence/verdict-errors.md`` has the rates: it is found in 1 % of losses whose seeds are normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.results.statistics import SAME, Sample

FAR = 5.0
"""Spreads below the median of its setting from which on a seed collapsed."""

FEWEST = 3
"""Fewest seeds of a setting that show which of them is far from the others."""

NORMAL = 1.4826
"""Standard deviations of a normal distribution in a median absolute deviation."""


@dataclass(frozen=True)
class Collapse:
    """The collapsed seeds of a loss: their number, the number of all its seeds, and the lowest with its neighbour.

    Attributes:
        lowest: The lowest value of the setting with the farthest collapsed seed.
        median: The median of this setting.
    """

    count: int
    seeds: int
    lowest: float
    median: float


def find_collapse(settings: Sequence[Sample]) -> Collapse | None:
    """Return the collapsed seeds of a loss from the values of its settings; ``None`` where there are none.

    Example:
        >>> find_collapse([np.array([190.0, 201.0, 118.9, 195.0, 192.0]), np.array([188.0, 191.0, 187.0])])
        Collapse(count=1, seeds=8, lowest=118.9, median=192.0)
    """
    known = [values for values in settings if len(values) >= FEWEST]
    if not known:
        return None
    below = [values - np.median(values) for values in known]
    spread = NORMAL * float(np.median(np.concatenate([np.sort(np.abs(one))[1:] for one in below])))
    if spread <= SAME * max(1.0, *(float(np.abs(values).max()) for values in known)):
        return None
    count = sum(int((one < -FAR * spread).sum()) for one in below)
    if not count:
        return None
    farthest = min(range(len(known)), key=lambda place: float(below[place].min()))
    seeds = sum(map(len, known))
    return Collapse(count, seeds, float(known[farthest].min()), float(np.median(known[farthest])))
