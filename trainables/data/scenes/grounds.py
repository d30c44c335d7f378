"""Backgrounds, painted with whole numbers."""

from collections.abc import Callable

import numpy as np

from trainables.data.scenes.scene import SIDE

Colour = tuple[int, int, int]


def paint_ground(name: str, generator: np.random.Generator) -> np.ndarray:
    """Return a background, shape (SIDE, SIDE, 3), int64 in [0, 255]."""
    return np.clip(_GROUNDS[name](generator), 0, 255)


def smooth_noise(generator: np.random.Generator, cells_down: int, cells_across: int) -> np.ndarray:
    """Return slow noise, shape (SIDE, SIDE), int64 in [0, 255]: random corners of cells, blended in between."""
    corners = generator.integers(0, 256, (cells_down + 1, cells_across + 1))
    rows, y = np.divmod(np.arange(SIDE) * cells_down * 256 // SIDE, 256)
    columns, x = np.divmod(np.arange(SIDE) * cells_across * 256 // SIDE, 256)
    left = corners[:, columns] * (256 - x) + corners[:, columns + 1] * x
    return (left[rows] * (256 - y)[:, None] + left[rows + 1] * y[:, None]) >> 16


def _fill(colour: Colour) -> np.ndarray:
    return np.broadcast_to(np.array(colour), (SIDE, SIDE, 3)).copy()


def _gradient(top: Colour, bottom: Colour) -> np.ndarray:
    """Blend two colours from the upper to the lower edge."""
    y = np.arange(SIDE)[:, None, None]
    rows = (np.array(top) * (SIDE - 1 - y) + np.array(bottom) * y) // (SIDE - 1)
    return np.broadcast_to(rows, (SIDE, SIDE, 3)).copy()


def _blend(ground: np.ndarray, colour: Colour, amount: np.ndarray) -> np.ndarray:
    """Mix a colour into the ground; ``amount``, shape (SIDE, SIDE), runs from 0 to 255."""
    amount = np.clip(amount, 0, 255)[:, :, None]
    return (ground * (255 - amount) + np.array(colour) * amount) // 255


def _grain(generator: np.random.Generator, strength: int) -> np.ndarray:
    """Return fine noise to be added, shape (SIDE, SIDE, 1)."""
    return generator.integers(-strength, strength + 1, (SIDE, SIDE, 1))


def _grass(generator: np.random.Generator) -> np.ndarray:
    ground = _gradient((96, 150, 70), (64, 122, 44)) + (smooth_noise(generator, 5, 5)[:, :, None] - 128) // 6
    blades = smooth_noise(generator, 40, 112)[:, :, None] - 128
    return ground + blades * np.array([2, 3, 1]) // 9


def _sky(generator: np.random.Generator) -> np.ndarray:
    clouds = (smooth_noise(generator, 4, 3) * 2 + smooth_noise(generator, 11, 8)) // 3
    return _blend(_gradient((86, 148, 226), (178, 214, 246)), (250, 251, 253), (clouds - 120) * 4)


def _sand(generator: np.random.Generator) -> np.ndarray:
    waves = smooth_noise(generator, 36, 3)[:, :, None] - 128
    return _fill((222, 193, 138)) + waves // 7 + _grain(generator, 9)


def _night(generator: np.random.Generator) -> np.ndarray:
    ground = _gradient((10, 12, 38), (36, 38, 84)) + (smooth_noise(generator, 3, 3)[:, :, None] - 128) // 14
    y, x = generator.integers(1, SIDE - 1, (2, 90))
    glow = generator.integers(110, 220, 90)
    for dy, dx, share in ((0, 0, 4), (0, 1, 1), (1, 0, 1), (0, -1, 1), (-1, 0, 1)):
        ground[y + dy, x + dx] += (glow * share // 4)[:, None]
    return ground


def _bricks(generator: np.random.Generator) -> np.ndarray:
    y, x = np.arange(SIDE)[:, None], np.arange(SIDE)[None, :]
    row = y // 22
    shifted = x + (row % 2) * 24
    shade = generator.integers(-22, 23, (12, 8))[row, shifted // 48]
    ground = _fill((168, 84, 64)) + shade[:, :, None] * np.array([3, 2, 2]) // 3
    ground[(y % 22 < 3) | (shifted % 48 < 3)] = (196, 186, 174)
    return ground + _grain(generator, 7)


def _wood(generator: np.random.Generator) -> np.ndarray:
    y = np.arange(SIDE)
    plank = generator.integers(-16, 17, 6)[y // 40][:, None, None]
    fibres = smooth_noise(generator, 75, 4)[:, :, None] - 128
    ground = _fill((170, 118, 70)) + plank + fibres * np.array([3, 2, 2]) // 14
    ground[y % 40 < 2] = (86, 56, 32)
    return ground


def _water(generator: np.random.Generator) -> np.ndarray:
    swell = smooth_noise(generator, 6, 4)
    y = np.arange(SIDE)[:, None]
    # Triangular waves, bent by the swell.
    crest = abs((y * 6 + swell) % 96 - 48)
    return _blend(_gradient((44, 128, 158), (18, 78, 122)), (150, 208, 220), (crest - 30) * 8)


def _snow(generator: np.random.Generator) -> np.ndarray:
    drifts = smooth_noise(generator, 5, 3)[:, :, None] - 128
    ground = _fill((226, 232, 242)) + drifts * np.array([3, 2, 1]) // 12
    y, x = generator.integers(0, SIDE - 2, (2, 120))
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
        ground[y + dy, x + dx] = 255
    return ground


def _tiles(generator: np.random.Generator) -> np.ndarray:
    y, x = np.arange(SIDE)[:, None], np.arange(SIDE)[None, :]
    dark = (y // 56 + x // 56) % 2 == 1
    ground = np.where(dark[:, :, None], np.array((150, 172, 182)), np.array((214, 220, 218)))
    ground = ground + (smooth_noise(generator, 9, 9)[:, :, None] - 128) // 12
    ground[(y % 56 < 2) | (x % 56 < 2)] = (110, 112, 112)
    return ground


def _sunset(generator: np.random.Generator) -> np.ndarray:
    ground = _gradient((106, 62, 128), (250, 160, 84))
    y, x = np.arange(SIDE)[:, None], np.arange(SIDE)[None, :]
    centre = int(generator.integers(40, SIDE - 40))
    distance = (x - centre) ** 2 + (y - 196) ** 2
    ground = _blend(ground, (255, 232, 160), 255 - distance // 12)
    return _blend(ground, (222, 108, 98), smooth_noise(generator, 16, 2) - 150)


def _paper(generator: np.random.Generator) -> np.ndarray:
    ground = _fill((238, 232, 218)) + (smooth_noise(generator, 3, 3)[:, :, None] - 128) // 14
    return ground + _grain(generator, 4)


_GROUNDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "grass": _grass,
    "sky": _sky,
    "sand": _sand,
    "night": _night,
    "bricks": _bricks,
    "wood": _wood,
    "water": _water,
    "snow": _snow,
    "tiles": _tiles,
    "sunset": _sunset,
    "paper": _paper,
}
