"""The range of each metric, so that no interval has impossible values."""

import math

from trainables.judgements.judged_metrics import CONDENSED

_RANGES = {
    "rsum": (0.0, 600.0),
    "r1_r5_sum": (0.0, 400.0),
    "average_recall": (0.0, 100.0),
    **dict.fromkeys(("r1", "r2", "r4", "r5", "r8", "r10"), (0.0, 100.0)),
    "map5": (0.0, 1.0),
    "map_r": (0.0, 1.0),
    "medr": (1.0, math.inf),
    "meanr": (1.0, math.inf),
}
"""Metric without split and direction -> its lowest and its highest value."""


def range_of(metric: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can have, so that no interval has impossible values.

    The metric may have a split, a direction, and the ending of lists without unjudged pairs. An end is infinite where
    there is no limit, or for other metrics.

    Example:
        >>> range_of("test/rsum"), range_of("val/i2t_map5")
        ((0.0, 600.0), (0.0, 1.0))
    """
    name = metric.rpartition("/")[2].removeprefix("i2t_").removeprefix("t2i_").removesuffix(CONDENSED)
    return _RANGES.get(name, (-math.inf, math.inf))
