"""The values of metrics from ranks: of each query, whose mean is the metric, and of each image, over which tests run.

The unit of a test is the image with its captions: captions of one image are correlated, so a caption is no independent
observation. With q the value of a query, the value of image i is

    image to caption:  y_i = q_i                                with q_i the value of the image as a query
    caption to image:  y_i = m + (sum of q_c - n_i m) / n       with the n_i captions of the image, n = mean of n_i,
                                                                and m = mean of q_c over all captions

The mean of y_i over the images is the metric, and the spread of y_i shows how the metric varies over images. Where all
images have equally many captions, y_i is the mean over the captions of the image.

References:
    [Cochran1977] Cochran, Sampling Techniques, section 6.3: the ratio estimator and its residuals.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainables.metric_table import DIRECTIONS, METRICS, metric_of, name_parts, parts_of
from trainables.plugins.in_use import offered
from trainables.ranks import Integers, Ranks

Values = NDArray[np.float64]


class Queries(NamedTuple):
    """The positives of Q queries of one direction.

    Attributes:
        positions: Positions among all candidates from 1, ascending, shape (Q, P); infinite where a query has fewer.
        counts: Number of positives of each query, shape (Q,), from 1.
    """

    positions: Values
    counts: NDArray[np.int64]


def queries_of(rank: NDArray[np.integer], query: NDArray[np.integer], depth: int | None = None) -> Queries:
    """Return the positives of queries from their ranks.

    Args:
        rank: Rank of each positive among the negatives of its query, shape (P,), integers from 1.
        query: Query of each positive, shape (P,), in [0, Q); each query has a positive.
        depth: Number of a query's best positives that are kept; all without it.
    """
    order = np.lexsort((rank, query))
    counts = np.bincount(query)
    first = np.cumsum(counts) - counts
    place = np.arange(len(query)) - first[query[order]]
    kept = place < (depth or len(query))
    order, place = order[kept], place[kept]
    positions = np.full((len(counts), int(place.max()) + 1), np.inf)
    # ``rank`` counts only negatives, but the better positives of the query precede this positive as well.
    positions[query[order], place] = rank[order] + place
    return Queries(positions, counts.astype(np.int64))


def listed_queries(positions: NDArray[np.integer], counts: NDArray[np.integer]) -> Queries:
    """Return queries from the positions of their positives, ascending, query after query, (P,), and their numbers."""
    first = np.cumsum(counts) - counts
    query = np.repeat(np.arange(len(counts)), counts)
    padded = np.full((len(counts), int(counts.max())), np.inf)
    padded[query, np.arange(len(positions)) - first[query]] = positions
    return Queries(padded, counts.astype(np.int64))


def single_queries(rank: NDArray[np.integer]) -> Queries:
    """Return queries with one positive each, from its rank, shape (Q,)."""
    return Queries(rank[:, None].astype(np.float64), np.ones(len(rank), dtype=np.int64))


def measured(measure: str, queries: Queries) -> Values:
    """Return the value of each query, (Q,), in a metric of one direction, without direction: ``r5`` (``KeyError``)."""
    function = metric_of(measure).of_queries
    if function is None:
        raise KeyError(measure)
    return np.asarray(function(*queries), dtype=np.float64)


def image_values(ranks: Ranks, metric: str, kept: Mapping[str, Values] | None = None) -> Values:
    """Return the value of each image; the mean of the values is the metric.

    Args:
        ranks: Ranks of a split with I images.
        metric: A metric without its split that is a mean over queries: ``rsum``, ``i2t_r1``, ``t2i_map5`` ...
        kept: Metric of one direction -> values of the images that were kept, see ``values_of_plugins``.

    Returns:
        Shape (I,), in the unit of the metric.

    Raises:
        KeyError: If the metric is no mean over queries, e.g. a median rank.
        PluginError: If the function of a plug-in's metric fails.
    """
    parts, divisor = parts_of(metric)
    values = [kept[part] if kept and part in kept else _of_images(ranks, part) for part in parts]
    return np.asarray(sum(values) / divisor)


def _of_images(ranks: Ranks, metric: str) -> Values:
    """Return the values of the images in a metric of one direction."""
    _, way, measure, _ = name_parts(metric)
    entry = metric_of(measure)
    if not entry.is_mean:
        raise KeyError(metric)
    if way == "i2t":
        return measured(measure, queries_of(ranks.i2t, ranks.image_of_caption, entry.depth))
    return over_captions(measured(measure, single_queries(ranks.t2i)), ranks.image_of_caption)


def values_of_plugins(ranks: Ranks, of_similarities: Mapping[str, Values]) -> dict[str, Values]:
    """Return metric of one direction -> value of each image, (I,), of the metrics of plug-ins.

    They are kept, so that nobody has to run a plug-in to compare models. ``of_similarities`` has the values of queries
    in the metrics that are functions of similarities.
    """
    values = {
        f"{way}_{measure}": _of_images(ranks, f"{way}_{measure}")
        for measure in offered("metrics")
        if METRICS[measure].of_queries is not None
        for way in DIRECTIONS
    }
    for name, of_queries in of_similarities.items():
        of_captions = name_parts(name).direction == "t2i"
        values[name] = over_captions(of_queries, ranks.image_of_caption) if of_captions else of_queries
    return values


def over_captions(values: Values, image_of_caption: Integers) -> Values:
    """Return the value of each image, (I,), from the values of its captions, (C,), see the head of this module."""
    captions = np.bincount(image_of_caption)
    sums = np.bincount(image_of_caption, weights=values)
    mean = values.mean()
    return np.asarray(mean + (sums - captions * mean) / captions.mean())
