"""The pixels of image files: decoded, cropped as VSE++ does it.

For evaluation the shorter side is resized and the centre cut out; for training a random part of the image is resized
to the crop and mirrored half of the time [Faghri2018]. Resizing is bilinear with antialiasing, as published.

References:
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, data.py:311-325.
"""

import math
from pathlib import Path

import numpy as np
import PIL.Image

UNREADABLE = (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError)
"""What Pillow raises on a file that is missing, truncated, too large, or no image."""

AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
"""Ranges of a random crop: part of the image's area, and width over height."""


def decode(path: Path) -> PIL.Image.Image:
    """Return the pixels of a file as red, green, blue; raises one of ``UNREADABLE``."""
    with PIL.Image.open(path) as image:
        return image.convert("RGB")


def center_crop(image: PIL.Image.Image, size: int) -> np.ndarray:
    """Resize the shorter side to 256/224 of the crop and cut out the centre, shape (size, size, 3), uint8."""
    shorter = resized_side(size)
    scale = shorter / min(image.size)
    width, height = (shorter if side == min(image.size) else int(side * scale) for side in image.size)
    image = image.resize((width, height), PIL.Image.Resampling.BILINEAR)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def random_crop(image: PIL.Image.Image, size: int, random: np.random.Generator) -> np.ndarray:
    """Resize a random part to the crop and mirror it half of the time, shape (size, size, 3), uint8."""
    left, top, width, height = _random_box(*image.size, random)
    image = image.crop((left, top, left + width, top + height))
    pixels = np.asarray(image.resize((size, size), PIL.Image.Resampling.BILINEAR))
    return pixels[:, ::-1] if random.random() < 0.5 else pixels


def resized_side(size: int) -> int:
    """Return the length of the shorter side from which the centre is cut: 256 for 224."""
    return round(size * 256 / 224)


def _random_box(width: int, height: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw left, top, width and height of a part; after ten tries that do not fit, the largest one in the centre."""
    for _ in range(10):
        area = width * height * random.uniform(*AREA)
        aspect = math.exp(random.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(random.integers(width - w + 1)), int(random.integers(height - h + 1)), w, h
    w = min(width, round(height * ASPECT[1]))
    h = min(height, round(width / ASPECT[0]))
    return (width - w) // 2, (height - h) // 2, w, h
