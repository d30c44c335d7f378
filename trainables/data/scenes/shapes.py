"""The outlines of shapes and the patterns on them, as inequalities between whole numbers.

Whole numbers give equal pictures on every machine; sines and square roots of different processors may differ.
"""

from collections.abc import Callable

import numpy as np

UNIT = 256
"""A shape reaches this far from its centre; coordinates run from -UNIT (left, top) to UNIT."""

Mask = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Sine and cosine, times 1024, of the multiples of 72 degrees for the five edges of a star; of 60 degrees for a hexagon.
_STAR_NORMALS = ((0, -1024), (974, -316), (602, 828), (-602, 828), (-974, -316))
_HEXAGON_NORMALS = ((1024, 0), (512, 887), (512, -887))


def _circle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * x + y * y <= (UNIT * 15 // 16) ** 2


def _square(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(abs(x), abs(y)) <= UNIT * 13 // 16


def _triangle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (y <= UNIT * 3 // 4) & (2 * abs(x) <= y + UNIT)


def _star(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # A point of a pentagram lies inside at least four of its five lines.
    inside = sum((-(nx * x + ny * y) <= 1024 * UNIT * 31 // 100).astype(np.int8) for nx, ny in _STAR_NORMALS)
    return np.asarray(inside >= 4) & (x * x + y * y <= UNIT * UNIT)


def _ring(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _circle(x, y) & (x * x + y * y >= (UNIT // 2) ** 2)


def _cross(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.minimum(abs(x), abs(y)) <= UNIT * 5 // 16) & (np.maximum(abs(x), abs(y)) <= UNIT * 15 // 16)


def _diamond(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 4 * abs(x) + 3 * abs(y) <= 3 * UNIT


def _heart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # (x² + y² - 1)³ <= x² y³ with y upwards, a unit of 13/16 ``UNIT``, and the heart moved down a little.
    unit = UNIT * 13 // 16
    up = -(y - UNIT // 10)
    return (x * x + up * up - unit * unit) ** 3 <= x * x * up**3 * unit


def _moon(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bite = x - UNIT * 7 // 16
    return _circle(x, y) & (bite * bite + y * y >= (UNIT * 12 // 16) ** 2)


def _hexagon(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    reach = [abs(nx * x + ny * y) for nx, ny in _HEXAGON_NORMALS]
    return np.maximum.reduce(reach) <= 1024 * UNIT * 13 // 16


SHAPE_MASKS: dict[str, Mask] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "ring": _ring,
    "cross": _cross,
    "diamond": _diamond,
    "heart": _heart,
    "moon": _moon,
    "hexagon": _hexagon,
}
"""Shape -> whether points lie inside, bool; x and y are int64 arrays that broadcast."""


def _plain(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=bool)


def _striped(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x + y) % 144 < 64


def _dotted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    dx, dy = x % 128 - 64, y % 128 - 64
    return dx * dx + dy * dy < 34 * 34


def _checkered(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x // 86 + y // 86) % 2 == 0


TEXTURE_MASKS: dict[str, Mask] = {
    "plain": _plain,
    "striped": _striped,
    "dotted": _dotted,
    "checkered": _checkered,
}
"""Texture -> whether points have the second colour; arguments and result as in ``SHAPE_MASKS``."""
