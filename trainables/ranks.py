"""The ranks that a model gave to the positives of a split, kept to compare models query by query.

Each caption makes one positive pair with its image, so a split of C captions has C ranks in each direction. A rank is 1
plus the number of negatives of the query that score at or above the pair. The rank of a query is the smallest rank of
its pairs. All retrieval metrics can be computed from the ranks.

A file of ranks is an ``.npz`` that holds no pickle. A journal holds the same numbers as text: int32, compressed by zlib
and encoded by base64 (``pack_integers``). They take about 10 kB for 1,000 images with five captions each.

A random ranking has an expected rsum as well: 150 of 600 on a split of twenty images with five captions each. A query
with m positives among n candidates finds one of them in its first K places with probability

    1 - C(n - m, K) / C(n, K)        (1 where K > n - m)

The rsum of chance is the sum of these six recalls in percent, K = 1, 5, 10, averaged over the queries.
"""

import base64
import binascii
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.errors import DataError, reason_of
from trainables.files import write_whole

_STORED = "<i4"


def pack_integers(values: NDArray[np.int32]) -> str:
    """Return integers as text; the shape is not part of the text."""
    # All lowest bytes come first, then all second bytes and so on: most ranks are small, and rows of zeros pack well.
    planes = values.astype(_STORED).reshape(-1).view(np.uint8).reshape(-1, 4).T.tobytes()
    return base64.b64encode(zlib.compress(planes, 9)).decode("ascii")


def unpack_integers(text: str, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return the integers of a text (``DataError`` if it is damaged, or holds another number of integers)."""
    try:
        planes = zlib.decompress(base64.b64decode(text, validate=True))
        flat = np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T
        return np.ascontiguousarray(flat).view(_STORED).reshape(shape).astype(np.int32)
    except (ValueError, TypeError, zlib.error, binascii.Error) as error:
        raise DataError(f"packed integers are damaged: {error}") from None


def pack_numbers(values: NDArray[np.float64]) -> str:
    """Return numbers as text, exactly; the shape is not part of the text."""
    return pack_integers(np.ascontiguousarray(values, dtype="<f8").view(_STORED))


def unpack_numbers(text: str) -> NDArray[np.float64]:
    """Return the numbers of a text, shape (N,) (``DataError`` if it is damaged)."""
    try:
        return unpack_integers(text, (-1,)).astype(_STORED).view("<f8").astype(np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(f"packed numbers are damaged: {error}") from None


Integers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of the positives of a split with I images and C captions.

    Attributes:
        i2t: Rank of each caption where its image queries captions, shape (C,), int32, from 1: among captions of other
            images.
        t2i: Rank of each caption's image where the caption queries images, shape (C,), int32, from 1.
        image_of_caption: Index in [0, I) of each caption's image, shape (C,), int32, non-decreasing.
        queries: SHA-256 of the ids of the images and the captions, 64 hex digits. Ranks with equal digests belong to
            equal queries, for models that read any features.
        split: ``val`` or ``test``.
        image_ids: The source's id of each image, I strings, for people and other programs; empty for a journal's ranks.
        chance: Expected rsum of a random ranking, in [0, 600], where images have classes or labels; elsewhere ``None``,
            because it follows from ``image_of_caption``.
    """

    i2t: Integers
    t2i: Integers
    image_of_caption: Integers
    queries: str
    split: str
    image_ids: tuple[str, ...] = ()
    chance: float | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that cannot be ranks of the positives of a split."""
        shapes = {name: getattr(self, name).shape for name in ("i2t", "t2i", "image_of_caption")}
        if len(set(shapes.values())) != 1 or len(self.i2t.shape) != 1 or not len(self.i2t):
            raise ValueError(f"all arrays of ranks must have one shape (captions,), got {shapes}")
        steps = np.diff(self.image_of_caption, prepend=-1)
        if steps[0] != 1 or steps.min() < 0 or steps.max() > 1:
            raise ValueError("captions must be in the order of their images, and every image needs a caption")
        if min(self.i2t.min(), self.t2i.min()) < 1:
            raise ValueError("ranks begin at 1")

    @property
    def images(self) -> int:
        """Number of images of the split."""
        return int(self.image_of_caption[-1]) + 1

    def of_images(self) -> Integers:
        """Return the rank of each image's best caption, shape (I,)."""
        first = np.searchsorted(self.image_of_caption, np.arange(self.images))
        return np.minimum.reduceat(self.i2t, first)

    def has_queries_of(self, other: "Ranks") -> bool:
        """Say whether the ranks belong to equal queries, so that they can be compared query by query."""
        return self.queries == other.queries and np.array_equal(self.image_of_caption, other.image_of_caption)

    def to_text(self) -> dict[str, Any]:
        """Return plain values for JSON, from which ``from_text`` makes the ranks again."""
        steps = np.diff(self.image_of_caption, prepend=0).astype(np.int32)
        about = {"queries": self.queries, "split": self.split, "captions": len(self.i2t)}
        about |= {} if self.chance is None else {"chance": self.chance}
        return {**about, "packed": pack_integers(np.stack([self.i2t, self.t2i, steps]))}

    @classmethod
    def from_text(cls, text: Mapping[str, Any]) -> "Ranks":
        """Return the ranks that ``to_text`` wrote (``DataError`` if the text is damaged)."""
        try:
            columns = unpack_integers(text["packed"], (3, int(text["captions"])))
            owners = np.cumsum(columns[2], dtype=np.int32)
            chance = None if text.get("chance") is None else float(text["chance"])
            return cls(columns[0], columns[1], owners, str(text["queries"]), str(text["split"]), chance=chance)
        except (KeyError, ValueError, TypeError, DataError) as error:
            raise DataError(f"kept ranks are damaged: {error}") from None


def write_ranks(path: Path, ranks: Ranks) -> None:
    """Write a file of ranks whole, or not at all.

    The path ends with ``.npz``, in an existing folder. The ranks are written as the arrays ``i2t``, ``t2i``,
    ``image_of_caption``, ``image_ids`` and the texts ``queries`` and ``split``.
    """
    buffer = io.BytesIO()
    arrays = {name: getattr(ranks, name) for name in ("i2t", "t2i", "image_of_caption")}
    texts = {"queries": np.array(ranks.queries), "split": np.array(ranks.split)}
    texts["image_ids"] = np.array(ranks.image_ids, dtype=np.str_)
    np.savez_compressed(buffer, allow_pickle=False, **arrays, **texts)
    write_whole(path, buffer.getvalue())


def read_ranks(path: Path) -> Ranks:
    """Return the ranks of a file (``DataError`` if it is missing, damaged, or no file of ranks)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            i2t, t2i, owners = (file[name].astype(np.int32) for name in ("i2t", "t2i", "image_of_caption"))
            names = tuple(file["image_ids"].tolist())
            return Ranks(i2t, t2i, owners, str(file["queries"]), str(file["split"]), names)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; `orchestrator evaluate CHECKPOINT --ranks {path}` writes it") from None
    except Exception as error:  # noqa: BLE001  # of a damaged archive zipfile, zlib and NumPy raise any error
        raise DataError(f"{path}: holds no ranks, or is damaged: {reason_of(error)}") from None


PLACES = (1, 5, 10)
"""The K of the recalls R@K in an rsum."""


def chance_rsum(
    image_of_caption: np.ndarray, labels: np.ndarray | None = None, caption_labels: np.ndarray | None = None
) -> float:
    """Return the expected rsum, in [0, 600], of a random ranking.

    Args:
        image_of_caption: Image of each caption, shape (C,), integers; each of I images has at least one caption.
        labels: Class of each image, shape (I,), where images retrieve the other images of their class.
        caption_labels: Label of each caption, shape (C,), where captions are labels that images share.

    Example:
        >>> round(chance_rsum(np.arange(20).repeat(5)), 1)
        149.7
    """
    if labels is not None:
        others = [size - 1 for size in Counter(labels.tolist()).values() for _ in range(size)]
        return 2 * sum(_recall(len(labels) - 1, others, places) for places in PLACES)
    captions_of_images = Counter(image_of_caption.tolist()).values()
    captions, images = len(image_of_caption), len(captions_of_images)
    if caption_labels is not None:
        counts = Counter(caption_labels.tolist())
        i2t = sum(_recall(len(counts), captions_of_images, places) for places in PLACES)
        # A pair has the other images of its label neither as positives nor as negatives.
        t2i = sum(n * sum(_recall(images - n + 1, [1], places) for places in PLACES) for n in counts.values())
        return i2t + t2i / captions
    i2t = sum(_recall(captions, captions_of_images, places) for places in PLACES)
    return i2t + sum(_recall(images, [1], places) for places in PLACES)


def _recall(candidates: int, positives: Iterable[int], places: int) -> float:
    """Return the expected recall in percent of queries with the given numbers of positives."""
    queries, missed, first = Counter(positives), 0.0, range(min(places, candidates))
    for own, count in queries.items():
        # The probability that no positive is among the first places.
        shares = [max(candidates - own - place, 0) / (candidates - place) for place in first]
        missed += count * float(np.prod(shares))
    return 100 * (1 - missed / queries.total())
