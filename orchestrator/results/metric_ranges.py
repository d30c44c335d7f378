"""Which values a retrieval metric can have, so that no interval contains impossible values."""

import math

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
    """Return the lowest and the highest value that a metric can have.

    Args:
        metric: With or without split and direction, e.g. ``test/rsum`` or ``i2t_r1``.

    Returns:
        Both ends, in the metric's unit; infinite where there is no limit, or the metric is no retrieval metric.

    Example:
        >>> range_of("test/rsum"), range_of("val/i2t_map5")
        ((0.0, 600.0), (0.0, 1.0))
    """
    name = metric.rpartition("/")[2].removeprefix("i2t_").removeprefix("t2i_")
    return _RANGES.get(name, (-math.inf, math.inf))
