"""A scene as pixels: the ground, then each thing with its shadow, edge, texture and light.

Outlines of shapes and patterns on them are inequalities between whole numbers, and grounds are painted with whole
numbers. Whole numbers give equal pictures on every machine; sines and square roots of different processors may differ.
"""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

from trainables.data.scenes.scene import GROUNDS, SIDE, Scene, Thing, random_generator

UNIT = 256
"""A shape reaches this far from its centre; coordinates run from -UNIT (left, top) to UNIT."""

Mask = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Sine and cosine, times 1024, of the multiples of 72 degrees for the five edges of a star; of 60 degrees for a hexagon.
_STAR_NORMALS = ((0, -1024), (974, -316), (602, 828), (-602, 828), (-974, -316))
_HEXAGON_NORMALS = ((1024, 0), (512, 887), (512, -887))


def _circle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * x + y * y <= (UNIT * 15 // 16) ** 2


def _star(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # A point of a pentagram lies inside at least four of its five lines.
    inside = sum((-(nx * x + ny * y) <= 1024 * UNIT * 31 // 100).astype(np.int8) for nx, ny in _STAR_NORMALS)
    return np.asarray(inside >= 4) & (x * x + y * y <= UNIT * UNIT)


def _heart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # (x² + y² - 1)³ <= x² y³ with y upwards, a unit of 13/16 ``UNIT``, and the heart moved down a little.
    unit = UNIT * 13 // 16
    up = -(y - UNIT // 10)
    return (x * x + up * up - unit * unit) ** 3 <= x * x * up**3 * unit


SHAPE_MASKS: dict[str, Mask] = {
    "circle": _circle,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) <= UNIT * 13 // 16,
    "triangle": lambda x, y: (y <= UNIT * 3 // 4) & (2 * abs(x) <= y + UNIT),
    "star": _star,
    "ring": lambda x, y: _circle(x, y) & (x * x + y * y >= (UNIT // 2) ** 2),
    "cross": lambda x, y: (
        (np.minimum(abs(x), abs(y)) <= UNIT * 5 // 16) & (np.maximum(abs(x), abs(y)) <= UNIT * 15 // 16)
    ),
    "diamond": lambda x, y: 4 * abs(x) + 3 * abs(y) <= 3 * UNIT,
    "heart": _heart,
    "moon": lambda x, y: _circle(x, y) & ((x - UNIT * 7 // 16) ** 2 + y * y >= (UNIT * 12 // 16) ** 2),
    "hexagon": lambda x, y: (
        np.maximum.reduce([abs(nx * x + ny * y) for nx, ny in _HEXAGON_NORMALS]) <= 1024 * UNIT * 13 // 16
    ),
}
"""Shape -> whether points lie inside, bool; x and y are int64 arrays that broadcast."""

TEXTURE_MASKS: dict[str, Mask] = {
    "plain": lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=bool),
    "striped": lambda x, y: (x + y) % 144 < 64,
    "dotted": lambda x, y: (x % 128 - 64) ** 2 + (y % 128 - 64) ** 2 < 34 * 34,
    "checkered": lambda x, y: (x // 86 + y // 86) % 2 == 0,
}
"""Texture -> whether points have the second colour; arguments and result as in ``SHAPE_MASKS``."""


Colour = tuple[int, int, int]


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


_PAINTERS = (_grass, _sky, _sand, _night, _bricks, _wood, _water, _snow, _tiles, _sunset, _paper)
_GROUNDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = dict(zip(GROUNDS, _PAINTERS, strict=True))


QUALITY = 88
"""Quality of the JPEG files."""

_SAMPLES = 4
"""Points across and down at which a pixel is sampled, which makes edges smooth."""

_PAINT: dict[str, tuple[int, int, int]] = {
    "red": (212, 32, 36),
    "orange": (244, 136, 28),
    "yellow": (248, 214, 40),
    "green": (40, 156, 62),
    "blue": (36, 78, 206),
    "purple": (126, 52, 172),
    "pink": (246, 132, 182),
    "brown": (120, 72, 36),
    "black": (28, 28, 32),
    "white": (248, 248, 248),
    "gray": (134, 136, 140),
    "turquoise": (40, 190, 186),
}


def render_jpeg(scene: Scene, seed: int, index: int) -> bytes:
    """Return scene number ``index`` as the bytes of a JPEG file of SIDE x SIDE pixels."""
    buffer = io.BytesIO()
    # All settings of the encoder are named, because its defaults may change from release to release.
    Image.fromarray(render_pixels(scene, seed, index)).save(
        buffer, "JPEG", quality=QUALITY, subsampling="4:2:0", optimize=False, progressive=False
    )
    return buffer.getvalue()


def render_pixels(scene: Scene, seed: int, index: int) -> np.ndarray:
    """Return the pixels of a scene, shape (SIDE, SIDE, 3), uint8."""
    generator = random_generator(seed, index, purpose=2)
    picture = np.clip(_GROUNDS[scene.ground](generator), 0, 255).astype(np.int32)
    for thing in scene.things:
        _paint_thing(picture, thing, generator)
    # The brightness of the picture, in 256ths, and noise as of a camera.
    light = int(generator.integers(224, 281))
    picture = picture * light // 256 + generator.integers(-3, 4, picture.shape, dtype=np.int8)
    return np.clip(picture, 0, 255).astype(np.uint8)


def _paint_thing(picture: np.ndarray, thing: Thing, generator: np.random.Generator) -> None:
    """Paint a thing into the picture: shadow, edge, then the body."""
    base = np.array(_PAINT[thing.colour], dtype=np.int32) + generator.integers(-12, 13, 3, dtype=np.int32)
    bright = int(base.sum()) > 560
    second = base * 9 // 20 if bright else (base + 2 * np.array((250, 250, 246))) // 3
    edge = base * 11 // 20 if int(base.sum()) > 150 else base + 70
    reach = thing.radius + 6
    # The sample points around the thing's centre in its own unit: x of shape (1, X), y of shape (Y, 1).
    samples = np.arange(-reach * _SAMPLES, reach * _SAMPLES, dtype=np.int64)
    points = (2 * samples + 1) * UNIT // (2 * _SAMPLES * thing.radius)
    x, y = points[None, :], points[:, None]
    inside = SHAPE_MASKS[thing.shape]
    # The inner part is drawn at 91 percent of the thing's size.
    outer, inner = _coverage(inside(x, y)), _coverage(inside(x * 100 // 91, y * 100 // 91))
    texture = _coverage(TEXTURE_MASKS[thing.texture](x, y))
    _mix(picture, thing.x + 4, thing.y + 6, reach, np.zeros(3, dtype=np.int32), outer * 2 // 5)
    _mix(picture, thing.x, thing.y, reach, edge, outer)
    full = _SAMPLES**2
    body = (base * (full - texture[:, :, None]) + second * texture[:, :, None]) // full
    # Light from the upper left: from 9/8 of the paint's brightness down to 6/8.
    ramp = np.arange(-reach, reach, dtype=np.int32)
    light = 240 - (ramp[:, None] + ramp[None, :]) * 48 // (2 * reach)
    _mix(picture, thing.x, thing.y, reach, np.minimum(body * light[:, :, None] // 256, 255), inner)


def _coverage(mask: np.ndarray) -> np.ndarray:
    """Count the samples of each pixel that are set: (4H, 4W) bool becomes (H, W) int32 in [0, 16]."""
    samples = mask.view(np.uint8)
    rows = np.asarray(sum(samples[k::_SAMPLES] for k in range(_SAMPLES)))
    return np.asarray(sum(rows[:, k::_SAMPLES] for k in range(_SAMPLES)), dtype=np.int32)


def _mix(picture: np.ndarray, x: int, y: int, reach: int, colour: np.ndarray, amount: np.ndarray) -> None:
    """Lay a colour over the square of ``reach`` around (x, y), in place; ``amount`` is its opacity in 16ths."""
    top, left = max(0, y - reach), max(0, x - reach)
    bottom, right = min(SIDE, y + reach), min(SIDE, x + reach)
    inside = slice(top - y + reach, bottom - y + reach), slice(left - x + reach, right - x + reach)
    opacity = amount[inside][:, :, None]
    paint = colour[inside] if colour.ndim == 3 else colour
    under = picture[top:bottom, left:right]
    under[:] = (under * (_SAMPLES**2 - opacity) + paint * opacity) // _SAMPLES**2
