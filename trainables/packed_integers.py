"""Integers as text for a journal: int32, compressed by zlib and encoded by base64."""

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray

from trainables.errors import DataError

_STORED = "<i4"


def pack_integers(values: NDArray[np.int32]) -> str:
    """Return integers as text; the shape is not part of the text."""
    # All lowest bytes come first, then all second bytes and so on: most ranks are small, and rows of zeros pack well.
    planes = values.astype(_STORED).reshape(-1).view(np.uint8).reshape(-1, 4).T.tobytes()
    return base64.b64encode(zlib.compress(planes, 9)).decode("ascii")


def unpack_integers(text: str, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return the integers of a text.

    Raises:
        DataError: If the text is damaged, or holds another number of integers.
    """
    try:
        planes = zlib.decompress(base64.b64decode(text, validate=True))
        flat = np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T
        return np.ascontiguousarray(flat).view(_STORED).reshape(shape).astype(np.int32)
    except (ValueError, TypeError, zlib.error, binascii.Error) as error:
        raise DataError(f"packed integers are damaged: {error}") from None
