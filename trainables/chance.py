"""The expected rsum of a random ranking: 150 of 600 on a split of twenty images with five captions each.

A query with m positives among n candidates finds one of them in its first K places with probability

    1 - C(n - m, K) / C(n, K)        (1 where K > n - m)

The rsum of chance is the sum of these six recalls in percent, K = 1, 5, 10, averaged over the queries.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

PLACES = (1, 5, 10)
"""The K of the recalls R@K in an rsum."""


def chance_rsum(image_of_caption: np.ndarray, labels: np.ndarray | None = None) -> float:
    """Return the expected rsum, in [0, 600], of a random ranking.

    Args:
        image_of_caption: Image of each caption, shape (C,), integers; each of I images has at least one caption.
        labels: Class of each image, shape (I,), where images retrieve the other images of their class.

    Example:
        >>> round(chance_rsum(np.arange(20).repeat(5)), 1)
        149.7
    """
    if labels is not None:
        others = [size - 1 for size in Counter(labels.tolist()).values() for _ in range(size)]
        return 2 * sum(_recall(len(labels) - 1, others, places) for places in PLACES)
    captions_of_images = Counter(image_of_caption.tolist()).values()
    captions, images = len(image_of_caption), len(captions_of_images)
    i2t = sum(_recall(captions, captions_of_images, places) for places in PLACES)
    return i2t + sum(_recall(images, [1], places) for places in PLACES)


def _recall(candidates: int, positives: Iterable[int], places: int) -> float:
    """Return the expected recall in percent of queries with the given numbers of positives."""
    queries = Counter(positives)
    missed = sum(count * _miss(candidates, own, places) for own, count in queries.items())
    return 100 * (1 - missed / queries.total())


def _miss(candidates: int, positives: int, places: int) -> float:
    """Return the probability that no positive is among the first places."""
    shares = [max(candidates - positives - place, 0) / (candidates - place) for place in range(min(places, candidates))]
    return float(np.prod(shares))
