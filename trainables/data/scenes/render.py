"""A scene as pixels: the ground, then each thing with its shadow, edge, texture and light."""

import io

import numpy as np
from PIL import Image

from trainables.data.scenes.grounds import paint_ground
from trainables.data.scenes.scene import SIDE, Scene, Thing, random_generator
from trainables.data.scenes.shapes import SHAPE_MASKS, TEXTURE_MASKS, UNIT

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
    Image.fromarray(render(scene, seed, index)).save(
        buffer, "JPEG", quality=QUALITY, subsampling="4:2:0", optimize=False, progressive=False
    )
    return buffer.getvalue()


def render(scene: Scene, seed: int, index: int) -> np.ndarray:
    """Return the pixels of a scene, shape (SIDE, SIDE, 3), uint8."""
    generator = random_generator(seed, index, purpose=2)
    picture = paint_ground(scene.ground, generator).astype(np.int32)
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
    x, y = _grid(thing, reach)
    outer, inner = _inside(thing, x, y, scale=100), _inside(thing, x, y, scale=91)
    texture = _coverage(TEXTURE_MASKS[thing.texture](x, y))
    _mix(picture, thing.x + 4, thing.y + 6, reach, np.zeros(3, dtype=np.int32), outer * 2 // 5)
    _mix(picture, thing.x, thing.y, reach, edge, outer)
    full = _SAMPLES**2
    body = (base * (full - texture[:, :, None]) + second * texture[:, :, None]) // full
    # Light from the upper left: from 9/8 of the paint's brightness down to 6/8.
    ramp = np.arange(-reach, reach, dtype=np.int32)
    light = 240 - (ramp[:, None] + ramp[None, :]) * 48 // (2 * reach)
    _mix(picture, thing.x, thing.y, reach, np.minimum(body * light[:, :, None] // 256, 255), inner)


def _grid(thing: Thing, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sample points around a thing's centre in its own unit: x of shape (1, X), y of shape (Y, 1)."""
    samples = np.arange(-reach * _SAMPLES, reach * _SAMPLES, dtype=np.int64)
    points = (2 * samples + 1) * UNIT // (2 * _SAMPLES * thing.radius)
    return points[None, :], points[:, None]


def _inside(thing: Thing, x: np.ndarray, y: np.ndarray, *, scale: int) -> np.ndarray:
    """Return how many samples of each pixel lie inside the thing, drawn at ``scale`` percent of its size."""
    return _coverage(SHAPE_MASKS[thing.shape](x * 100 // scale, y * 100 // scale))


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
