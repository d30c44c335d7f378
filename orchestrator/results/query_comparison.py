"""Compares two candidates query by query: which queries one candidate finds and the other misses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.ranks import Ranks

DEPTHS = (1, 5, 10)
"""A query counts as found if its best positive is among the first candidates down to one of these ranks."""

SHOWN = 10


@dataclass(frozen=True)
class QueryRanks:
    """The ranks of one query by both candidates.

    Attributes:
        query: Index of the image, or of the caption, in its split.
        first: Rank that the first candidate gives the query's best positive, the median over the seeds; from 1.
        second: Rank that the second candidate gives the query's best positive, likewise.
    """

    query: int
    first: float
    second: float


@dataclass(frozen=True)
class Found:
    """How many queries are found down to rank ``depth``.

    Attributes:
        both: Number of queries found by both candidates.
        only_first: Number of queries found by the first candidate alone.
        only_second: Number of queries found by the second candidate alone.
        neither: Number of queries found by neither candidate.
    """

    depth: int
    both: int
    only_first: int
    only_second: int
    neither: int


@dataclass(frozen=True)
class DirectionComparison:
    """The comparison of two candidates in one direction of retrieval.

    Attributes:
        found: Numbers of found queries, for each of ``DEPTHS``.
        gained: The queries on which the first candidate is furthest ahead by the ratio of ranks, the largest ratio
            first; at most ``SHOWN``.
        lost: The queries on which the second candidate is furthest ahead, likewise.
    """

    found: tuple[Found, ...]
    gained: tuple[QueryRanks, ...]
    lost: tuple[QueryRanks, ...]


def compare_queries(first: Sequence[Ranks], second: Sequence[Ranks]) -> tuple[DirectionComparison, DirectionComparison]:
    """Compare two candidates on the queries of one split.

    Args:
        first: The first candidate's ranks, for each of at least one seed.
        second: The second candidate's ranks, for each of at least one seed.

    Returns:
        The comparison for image-to-caption retrieval, and for caption-to-image retrieval.

    Raises:
        ValueError: If the ranks belong to different queries.
    """
    if not all(one.has_queries_of(first[0]) for one in (*first, *second)):
        raise ValueError("ranks of other queries cannot be compared query by query")
    i2t = [np.median([one.of_images() for one in runs], axis=0) for runs in (first, second)]
    t2i = [np.median([one.t2i for one in runs], axis=0) for runs in (first, second)]
    return _compare(*i2t), _compare(*t2i)


def _compare(first: NDArray[np.float64], second: NDArray[np.float64]) -> DirectionComparison:
    ratio = np.log(second) - np.log(first)
    # The sort is stable, so that equal leads keep the order of the split on every machine.
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
