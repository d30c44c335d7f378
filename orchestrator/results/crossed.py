"""Compares two candidates over seeds and images, so that the result holds for other seeds and images of this kind.

The value of image i in the run with seed s of a candidate is y_si = m + a_s + b_i + e_si. The random effects are those
of the seed, of the image (much alike in both candidates) and of both together. The variance of the difference of two
means over S seeds and I images is estimated by [Searle1992]

    V = A_1 + A_2 + B - C_1 - C_2          (not below B, nor below A_1 + A_2)
    A = variance of a candidate's run means / S             effect of the seeds, which includes e
    B = variance of the difference per image / I            effect of the images, which includes e a second time
    C = mean square of the residuals of y / (S I)           e, subtracted once; residuals from seed and image effects

and the difference divided by sqrt(V) is compared with Student's distribution. Its degrees of freedom are
Satterthwaite's of A_1, A_2 and the rest, with each A multiplied by 1 + 2 / (S - 1) there. The A of three seeds is often
far too small by chance, and would leave the many degrees of freedom of the images. A candidate without seeds has A = 0
and C = 0, because further runs would repeat its values.

The crossed bootstrap, which resamples seeds and images, is not used. With S seeds it estimates (S - 1) / S of the
variance, and ignores that few seeds have few degrees of freedom. Where seeds cause most of the spread, it finds a
difference in 28 % of pairs without one with 2 seeds, at a level of 4 %. It does in 17 % with 3 seeds, and in 10 % with
5. Where images cause most of the spread, it counts e three times [Owen2007] and finds fewer differences than this test.
``python -m tests.benchmarks verdicts`` simulates both.

The unit is the image with its captions: captions of one image are correlated, so a caption is no independent
observation. Every metric that can select is a mean over queries; the value of an image in such a metric is

    image to caption:  y_i = q_i                                with q_i the value of the image as a query
    caption to image:  y_i = m + (sum of q_c - n_i m) / n       with the n_i captions of the image, n = mean of n_i,
                                                                and m = mean of q_c over all captions

The mean of y_i over the images is the metric, and the spread of y_i shows how the metric varies over images. Where all
images have equally many captions, y_i is the mean over the captions of the image. The candidates of a query (the
gallery) are fixed, because a rank among other candidates is not known without the model. The file
``docs/evidence/verdict-errors.md`` measures the variation that this leaves out.

References:
    [Searle1992] Searle, Casella and McCulloch, Variance Components, section 4.4: the two-way crossed random model.
    [Satterthwaite1946] Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2.
    [Owen2007] Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 386-411.
    [Cochran1977] Cochran, Sampling Techniques, section 6.3: the ratio estimator and its residuals.
"""

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.statistics import DifferenceTest, Sample
from trainables.ranks import Integers, Ranks

ImageRows = NDArray[np.float64]
"""The values of a candidate's runs, shape (S, I): one row per seed, one column per image."""


def crossed_test(first: ImageRows, second: ImageRows) -> DifferenceTest | None:
    """Compare two candidates over their seeds and the images on which both were evaluated.

    Args:
        first: Shape (S1, I); a single row is a candidate without seeds, whose further runs would give equal values.
        second: Shape (S2, I), with the images in the order of ``first``.

    Returns:
        The test; ``None`` where nothing varies: fewer than two images, or no spread over seeds and images at all.
    """
    images = first.shape[1]
    if images < 2:
        return None
    seeds, joint = zip(own_parts(first), own_parts(second), strict=True)
    both = sum(joint)
    per_image = first.mean(0) - second.mean(0)
    over_images = float(per_image.var(ddof=1)) / images
    variance = max(sum(seeds) + over_images - both, over_images, sum(seeds))
    rounding = 1e-12 * max(1.0, np.abs(first).max(), np.abs(second).max())
    if variance <= rounding**2:
        return None
    return DifferenceTest(float(per_image.mean()), seeds, joint, (len(first), len(second)), variance, images)


def own_parts(runs: ImageRows) -> tuple[float, float]:
    """Return A and C of a candidate; 0 and 0 where it has no seeds, or fewer than two images."""
    seeds, images = runs.shape
    if seeds < 2 or images < 2:
        return 0.0, 0.0
    left = runs - runs.mean(0) - runs.mean(1)[:, None] + runs.mean()
    mean_square = float((left**2).sum()) / ((seeds - 1) * (images - 1))
    return float(runs.mean(1).var(ddof=1)) / seeds, mean_square / (seeds * images)


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
    # The rank of each positive, and the query of each; each caption is the query of one positive.
    rank, query = ranks.i2t, ranks.image_of_caption
    if way == "t2i":
        rank, query = ranks.t2i, np.arange(len(ranks.t2i), dtype=np.int32)
    if name == "map5":
        values = _average_precision(rank, query)
    else:
        rank = ranks.of_images() if way == "i2t" else rank
        values = np.where(rank <= {"r1": 1, "r5": 5, "r10": 10}[name], 100.0, 0.0)
    return values if way == "i2t" else over_captions(values, ranks.image_of_caption)


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


def over_captions(values: Sample, image_of_caption: Integers) -> Sample:
    """Return the value of each image from the values of its captions, see the head of this module.

    Both have the shape (C,); images count from 0 without a gap.
    """
    captions = np.bincount(image_of_caption)
    sums = np.bincount(image_of_caption, weights=values)
    mean = values.mean()
    return np.asarray(mean + (sums - captions * mean) / captions.mean())
