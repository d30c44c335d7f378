"""Features of a picture from its pixels alone: histograms of colour and of gradient directions on a grid.

Counts are whole numbers; their roots, and the mean that is subtracted, are rounded down to whole numbers. Only the last
division gives a fraction, so every machine computes equal features.

References:
    [Arandjelovic2012] Arandjelovic and Zisserman, Three things everyone should know, CVPR 2012: root histograms.
    [Dalal2005] Dalal and Triggs, Histograms of Oriented Gradients, CVPR 2005.
"""

import numpy as np

DESCRIPTION = "root histograms of colour and gradient direction on a 4x4 grid"
"""Written beside the features."""

GRID = 4
"""A picture has GRID x GRID cells; each cell is a region."""

HUES, TONES, GRAYS, DIRECTIONS = 12, 3, 8, 12
COLOURS = HUES * TONES + GRAYS
GLOBAL_SIZE = GRID * GRID * (COLOURS + DIRECTIONS)
REGION_SIZE = COLOURS + 4 * DIRECTIONS

_PRECISION = 16
"""Factor by which the root of a count is multiplied before it is rounded down."""

_REGION_SCALE = 256
"""Divisor of a region's values, about one standard deviation."""

_WEAKEST_GRADIENT = 24
"""Least strength of a gradient that counts; a weaker gradient is noise of the picture or of its compression."""

# Cosines and sines of 15, 30, ... 165 degrees, times 1024: the borders between the directions.
_COSINES = (989, 887, 724, 512, 265, 0, -265, -512, -724, -887, -989)
_SINES = (265, 512, 724, 887, 989, 1024, 989, 887, 724, 512, 265)


def describe_picture(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the roots of all histograms of a picture.

    Args:
        pixels: RGB, shape (H, W, 3), uint8; H and W multiples of ``2 * GRID``.

    Returns:
        The picture's values, shape (GLOBAL_SIZE,), and the cells' values, shape (GRID * GRID, REGION_SIZE); int32.
    """
    red, green, blue = pixels.transpose(2, 0, 1).astype(np.int32)
    cells = _cells(pixels, GRID)
    colours = _histograms(cells * COLOURS + _colour_bins(red, green, blue), None, GRID, COLOURS)
    place, direction, strength = _gradients((77 * red + 150 * green + 29 * blue) >> 8)
    directions = _histograms(cells.ravel()[place] * DIRECTIONS + direction, strength, GRID, DIRECTIONS)
    # A cell on its own has more detail: the directions in its four quarters.
    quarter = _cells(pixels, 2 * GRID).ravel()[place]
    fine = _histograms(quarter * DIRECTIONS + direction, strength, 2 * GRID, DIRECTIONS)
    quarters = fine.reshape(GRID, 2, GRID, 2, -1).transpose(0, 2, 1, 3, 4).reshape(GRID * GRID, 4 * DIRECTIONS)
    return (
        _roots(np.concatenate([colours, directions], axis=1)).ravel(),
        _roots(np.concatenate([colours, quarters], axis=1)),
    )


def finish_global(roots: np.ndarray, train: slice) -> np.ndarray:
    """Centre on the train pictures' mean and give each row unit length: (I, GLOBAL_SIZE) int32 becomes float16."""
    centred = roots.astype(np.int64) - roots[train].sum(axis=0, dtype=np.int64) // len(roots[train])
    lengths = np.sqrt((centred * centred).sum(axis=1, keepdims=True).astype(np.float64))
    return (centred / np.maximum(lengths, 1)).astype(np.float16)


def finish_regions(roots: np.ndarray, train: slice) -> np.ndarray:
    """Centre on the mean of all train cells and scale: (I, R, REGION_SIZE) int32 becomes float16."""
    cells = roots[train].shape[0] * roots.shape[1]
    centred = roots.astype(np.int64) - roots[train].sum(axis=(0, 1), dtype=np.int64) // cells
    return (centred / _REGION_SCALE).astype(np.float16)


def _cells(pixels: np.ndarray, grid: int) -> np.ndarray:
    """Return the number of each pixel's cell on a grid, row by row, shape (H, W)."""
    rows, columns = (np.arange(length) * grid // length for length in pixels.shape[:2])
    return rows[:, None] * grid + columns[None, :]


def _colour_bins(red: np.ndarray, green: np.ndarray, blue: np.ndarray) -> np.ndarray:
    """Return each pixel's colour in [0, COLOURS): hue by dark, pale and vivid, or a gray by its brightness."""
    largest = np.maximum(np.maximum(red, green), blue)
    chroma = largest - np.minimum(np.minimum(red, green), blue)
    step = np.maximum(chroma, 1)
    is_red, is_green = largest == red, largest == green
    difference = np.where(is_red, green - blue, np.where(is_green, blue - red, red - green))
    sector = difference * 256 // step + np.where(is_red, 0, np.where(is_green, 512, 1024))
    # 1536 = six sectors of 256; half a bin is added, so that red, yellow, ... lie in the middle of their bins.
    hue = (sector + 64) % 1536 // (1536 // HUES)
    tone = np.where(largest < 140, 0, np.where(2 * chroma < largest, 1, 2))
    is_gray = (4 * chroma < largest) | (chroma < 20)
    return np.where(is_gray, HUES * TONES + largest * GRAYS // 256, hue * TONES + tone)


def _gradients(brightness: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return flat index, direction in [0, DIRECTIONS) over half a turn, and strength of each gradient above noise."""
    across, down = np.zeros_like(brightness), np.zeros_like(brightness)
    across[:, 1:-1] = brightness[:, 2:] - brightness[:, :-2]
    down[1:-1] = brightness[2:] - brightness[:-2]
    strength = (abs(across) + abs(down)).ravel()
    place = np.flatnonzero(strength >= _WEAKEST_GRADIENT)
    across, down = across.ravel()[place], down.ravel()[place]
    # From light to dark and from dark to light count as one direction.
    turned = (down < 0) | ((down == 0) & (across < 0))
    across, down = np.where(turned, -across, across), abs(down)
    direction = np.zeros(len(place), dtype=np.int64)
    for cosine, sine in zip(_COSINES, _SINES, strict=True):
        direction += down * cosine - across * sine >= 0
    return place, direction, strength[place]


def _histograms(bins: np.ndarray, weights: np.ndarray | None, grid: int, size: int) -> np.ndarray:
    """Return one histogram a cell, shape (grid * grid, size), whole numbers; bins are numbered cell by cell."""
    # Weighted counts come as float64, which holds these whole numbers exactly.
    counts = np.bincount(bins.ravel(), weights=weights, minlength=grid * grid * size)
    return counts.astype(np.int64).reshape(grid * grid, size)


def _roots(counts: np.ndarray) -> np.ndarray:
    return np.sqrt((counts * _PRECISION**2).astype(np.float64)).astype(np.int32)
