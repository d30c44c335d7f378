"""A smooth mean of scattered trials, for slices and contours.

The kernel regression of Nadaraya and Watson with a Gaussian of width ``n^(-1/(4+d))`` of the unit cube (Scott's rule,
halved). The regression does not extrapolate: places without near trials get no value.
"""

import numpy as np

NEAR = 0.35
"""Sum of kernel weights below which a place is left blank; about the weight of one trial at 1.4 widths."""


def smooth(points: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the mean of the values around each place.

    Args:
        points: Points of the trials, shape (N, d), scaled to [0, 1].
        values: Values of the trials, shape (N,).
        places: Places of the means, shape (M, d).

    Returns:
        Weighted means, shape (M,); NaN where no trial is near.
    """
    count, dimensions = points.shape
    width = 0.5 * count ** (-1 / (4 + dimensions))
    squares = ((places[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
    weights = np.exp(-squares / (2 * width**2))
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total >= NEAR, weights @ values / total, np.nan)
