"""The value of each image of a split in a retrieval metric, from which a verdict estimates the effect of other images.

The unit is the image with its captions: captions of one image are correlated, so a caption is no independent
observation. Every metric that can select is a mean over queries; the value of an image is

    image to caption:  y_i = q_i                                with q_i the value of the image as a query
    caption to image:  y_i = m + (sum of q_c - n_i m) / n       with the n_i captions of the image, n = mean of n_i,
                                                                and m = mean of q_c over all captions

The mean of y_i over the images is the metric, and the spread of y_i tells how the metric varies over images; where all
images have equally many captions, y_i is the mean over the captions of the image. The candidates of a query (the
gallery) are fixed, because a rank among other candidates is not known without the model;
``docs/evidence/verdict-errors.md`` measures the variation that this leaves out.

References:
    [Cochran1977] Cochran, Sampling Techniques, section 6.3: the ratio estimator and its residuals.
"""

import numpy as np

from orchestrator.results.statistics import Sample
from trainables.ranks import Integers, Ranks

DEPTH = 5
"""Number of first candidates that count in average precision (AP@5)."""

_SUMS = {
    "rsum": [f"{way}_r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)],
    "r1_r5_sum": [f"{way}_r{k}" for way in ("i2t", "t2i") for k in (1, 5)],
}


def image_values(ranks: Ranks, metric: str) -> Sample:
    """Return the value of each image; the mean of the values is the metric.

    Args:
        ranks: Ranks of a split with I images.
        metric: A metric that can select, without its split: ``rsum``, ``i2t_r1``, ``t2i_map5`` ...

    Returns:
        Shape (I,), in the unit of the metric.

    Raises:
        KeyError: If the metric is no mean over queries, e.g. a median rank.
    """
    if metric in _SUMS:
        return np.asarray(sum(image_values(ranks, part) for part in _SUMS[metric]))
    way, _, name = metric.partition("_")
    if name == "average_recall":
        return np.asarray(sum(image_values(ranks, f"{way}_r{k}") for k in (1, 5, 10)) / 3)
    if way == "i2t":
        return _of_images(ranks, name)
    return _over_captions(_of_captions(ranks, name), ranks.image_of_caption)


def _of_images(ranks: Ranks, name: str) -> Sample:
    """Return a metric of each image as a query, shape (I,)."""
    if name == "map5":
        return _average_precision(ranks.i2t, ranks.image_of_caption)
    return _recall(ranks.of_images(), name)


def _of_captions(ranks: Ranks, name: str) -> Sample:
    """Return a metric of each caption as a query, shape (C,)."""
    if name == "map5":
        return _average_precision(ranks.t2i, np.arange(len(ranks.t2i), dtype=np.int32))
    return _recall(ranks.t2i, name)


def _recall(rank: Integers, name: str) -> Sample:
    return np.where(rank <= {"r1": 1, "r5": 5, "r10": 10}[name], 100.0, 0.0)


def _average_precision(rank: Integers, query: Integers) -> Sample:
    """Return AP@5 of each query as published: divided by the hits among the first five.

    Args:
        rank: Rank of each positive among the negatives of its query, shape (P,).
        query: Query of each positive, shape (P,), non-decreasing from 0 without a gap.
    """
    order = np.lexsort((rank, query))
    first = np.searchsorted(query, np.arange(query[-1] + 1))
    place = np.arange(len(query)) - first[query] + 1
    # ``rank`` counts only negatives, but the better positives of the query precede this positive as well.
    position = rank[order] + place - 1
    hit = position <= DEPTH
    total = np.add.reduceat(np.where(hit, place / position, 0.0), first)
    return np.asarray(total / np.maximum(np.add.reduceat(hit, first, dtype=np.int64), 1))


def _over_captions(values: Sample, image_of_caption: Integers) -> Sample:
    """Return the value of each image from the values of its captions, see the head of this module."""
    captions = np.bincount(image_of_caption)
    sums = np.bincount(image_of_caption, weights=values)
    mean = values.mean()
    return np.asarray(mean + (sums - captions * mean) / captions.mean())
