"""Two candidates query by query: which queries one of them finds and the other loses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.ranks import Ranks

DEPTHS = (1, 5, 10)
"""A query is found among the first so many candidates."""

SHOWN = 10


@dataclass(frozen=True)
class QueryRanks:
    """One query in both candidates.

    Attributes:
        query: Index of the image, or of the caption, in its split.
        first: Rank that the first candidate gives the query's best positive, the median over the seeds; from 1.
        second: Rank that the second candidate gives, as for the first.
    """

    query: int
    first: float
    second: float


@dataclass(frozen=True)
class Found:
    """How many queries are found among the first ``depth`` candidates.

    Attributes:
        both: By both candidates.
        only_first: By the first and not by the second.
        only_second: By the second and not by the first.
        neither: By none of the two.
    """

    depth: int
    both: int
    only_first: int
    only_second: int
    neither: int


@dataclass(frozen=True)
class DirectionComparison:
    """One direction of retrieval.

    Attributes:
        found: For each of ``DEPTHS``.
        gained: The queries on which the first is ahead by most, as a ratio of ranks, the largest first; at most
            ``SHOWN``.
        lost: The queries on which the second is.
    """

    found: tuple[Found, ...]
    gained: tuple[QueryRanks, ...]
    lost: tuple[QueryRanks, ...]


def compare_queries(first: Sequence[Ranks], second: Sequence[Ranks]) -> tuple[DirectionComparison, DirectionComparison]:
    """Compare two candidates on the queries of one split.

    Args:
        first: The ranks of each seed, at least one; of the same queries as all others.
        second: The ranks of each seed.

    Returns:
        Images that query captions, and captions that query images.

    Raises:
        ValueError: If the ranks are not of the same queries.
    """
    if not all(one.has_queries_of(first[0]) for one in (*first, *second)):
        raise ValueError("ranks of other queries cannot be compared query by query")
    i2t = [np.median([one.of_images() for one in runs], axis=0) for runs in (first, second)]
    t2i = [np.median([one.t2i for one in runs], axis=0) for runs in (first, second)]
    return _compare(*i2t), _compare(*t2i)


def _compare(first: NDArray[np.float64], second: NDArray[np.float64]) -> DirectionComparison:
    ratio = np.log(second) - np.log(first)
    # Stable: of equal leads the first query of the split, on every machine.
    order = np.argsort(-ratio, kind="stable"), np.argsort(ratio, kind="stable")
    gained, lost = ([int(query) for query in queries[:SHOWN]] for queries in order)
    return DirectionComparison(
        found=tuple(_count(depth, first <= depth, second <= depth) for depth in DEPTHS),
        gained=tuple(QueryRanks(q, float(first[q]), float(second[q])) for q in gained if ratio[q] > 0),
        lost=tuple(QueryRanks(q, float(first[q]), float(second[q])) for q in lost if ratio[q] < 0),
    )


def _count(depth: int, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Found:
    return Found(
        depth,
        int((first & second).sum()),
        int((first & ~second).sum()),
        int((~first & second).sum()),
        int((~first & ~second).sum()),
    )
