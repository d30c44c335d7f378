"""The pixels of image files: decoded, cropped as VSE++ does it.

Pictures are not trusted: formats that start other programs are not opened, a picture's size is checked before it is
decoded, and pixels without a known range, which cannot be turned into 8 bits a channel, are refused.

For evaluation the shorter side is resized and the centre cut out; for training a random part of the image is resized
to the crop and mirrored half of the time [Faghri2018]. Resizing is bilinear with antialiasing, as published.

References:
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, data.py:311-325.
"""

import math
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import PIL.Image

from trainables.errors import DataError

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are opened, whatever the file's name; other formats of Pillow may start programs (EPS: Ghostscript)."""

MOST_PIXELS = 1 << 25
"""Most pixels of a picture, e.g. 7,000 x 4,700; decoding takes 4 bytes a pixel, or 8 with alpha."""

LONGEST = 100
"""Most times that a picture is longer than wide, because its shorter side is resized to about the crop's."""

_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes of at most 8 bits a channel beside RGB, all of which it converts by their range."""

_SIXTEEN_BITS = (("PNG", "I;16"), ("PNG", "I"), ("PPM", "I"))
"""Formats and modes whose values lie in [0, 65535]; those of a TIFF may have any range."""

_BROKEN = (
    *(OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RuntimeError),
    *(EOFError, AssertionError, MemoryError, struct.error, zlib.error, PIL.Image.DecompressionBombError),
)
"""Errors of Pillow's readers about a file that is missing, cut short, damaged, or no picture."""

# A picture about which Pillow warns is refused below, with its name.
warnings.filterwarnings("ignore", category=PIL.Image.DecompressionBombWarning)

AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
"""Ranges of a random crop: part of the image's area, and width over height."""


def decode(path: Path) -> PIL.Image.Image:
    """Return the pixels of a file as red, green and blue of 8 bits each.

    A grey picture of 16 bits is scaled by its range; transparency is dropped, as torchvision drops it.

    Raises:
        DataError: If the file is missing or damaged, of no format of ``FORMATS``, too large, or of pixels without a
            known range; the message names it.
    """
    try:
        with PIL.Image.open(path, formats=FORMATS) as image:
            _check_size(*image.size)
            return _to_rgb(image)
    except _BROKEN as error:
        raise DataError(f"{path}: cannot be decoded: {_reason(error)}; fetch the picture again, or another") from error


def center_crop(image: PIL.Image.Image, size: int) -> np.ndarray:
    """Resize the shorter side to 256/224 of the crop and cut out the centre, shape (size, size, 3), uint8."""
    shorter = resized_side(size)
    # In this order of operations the sizes are torchvision's to the pixel.
    width, height = (int(shorter * side / min(image.size)) for side in image.size)
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


def _check_size(width: int, height: int) -> None:
    """Refuse a picture that takes too much memory, before it is decoded."""
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width:,} x {height:,} pixels are more than {MOST_PIXELS:,}; make it smaller")
    if max(width, height) > LONGEST * min(width, height):
        raise ValueError(f"with {width:,} x {height:,} pixels it is more than {LONGEST} times longer than wide")


def _to_rgb(image: PIL.Image.Image) -> PIL.Image.Image:
    """Decode an opened image; ``ValueError`` if the range of its values is not known."""
    if image.mode == "RGB":
        # Converting would copy it.
        image.load()
        return image
    if (image.format, image.mode) in _SIXTEEN_BITS:
        values = (np.asarray(image).astype(np.uint32) + 128) // 257
        return PIL.Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.mode not in _EIGHT_BITS:
        raise ValueError(
            f"it has pixels of mode {image.mode!r} in {image.format} format, whose range of brightness is not known; "
            "save it with 8 bits a channel"
        )
    return image.convert("RGB")


def _reason(error: BaseException) -> str:
    """Say in words why a picture is not read."""
    if isinstance(error, PIL.UnidentifiedImageError):
        return f"it is no picture of the formats that are read, {', '.join(FORMATS)}"
    if isinstance(error, PIL.Image.DecompressionBombError):
        return f"it has more than {MOST_PIXELS:,} pixels; make it smaller"
    if isinstance(error, OSError | ValueError | SyntaxError):
        return str(getattr(error, "strerror", None) or error)
    return f"{type(error).__name__}: {error}"


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
