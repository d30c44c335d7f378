"""Compares two candidates over seeds and images, so that the result holds for other seeds and images of this kind.

The value of image i in the run with seed s of a candidate is y_si = m + a_s + b_i + e_si, with random effects of the
seed, of the image (much alike in both candidates) and of both together. The variance of the difference of two means
over S seeds and I images is estimated by [Searle1992]

    V = A_1 + A_2 + B - C_1 - C_2          (not below B, nor below A_1 + A_2)
    A = variance of a candidate's run means / S             effect of the seeds, which includes e
    B = variance of the difference per image / I            effect of the images, which includes e a second time
    C = mean square of the residuals of y / (S I)           e, subtracted once; residuals from seed and image effects

and the difference divided by sqrt(V) is compared with Student's distribution. Its degrees of freedom are
Satterthwaite's of A_1, A_2 and the rest, with each A multiplied by 1 + 2 / (S - 1) there: the A of three seeds is often
far too small by chance, and would leave the many degrees of freedom of the images. A candidate without seeds has A = 0
and C = 0, because further runs would repeat its values.

The crossed bootstrap, which resamples seeds and images, is not used: with S seeds it estimates (S - 1) / S of the
variance, and ignores that few seeds have few degrees of freedom. Where seeds cause most of the spread, it calls 28 % of
pairs without a difference different with 2 seeds, 17 % with 3 and 10 % with 5, at a level of 4 %; where images cause
most of the spread, it counts e three times [Owen2007] and finds fewer differences than this test.
``python -m tests.benchmarks verdicts`` simulates both.

References:
    [Searle1992] Searle, Casella and McCulloch, Variance Components, section 4.4: the two-way crossed random model.
    [Satterthwaite1946] Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2.
    [Owen2007] Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 386-411.
"""

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.statistics import DifferenceTest, Variances

Runs = NDArray[np.float64]
"""The values of a candidate's runs, shape (S, I): one row per seed, one column per image."""


def crossed_test(first: Runs, second: Runs, parts_of_first: tuple[float, float] | None = None) -> DifferenceTest | None:
    """Compare two candidates over their seeds and the images on which both were evaluated.

    Args:
        first: Shape (S1, I); a single row is a candidate without seeds, whose further runs would give equal values.
        second: Shape (S2, I), with the images in the order of ``first``.
        parts_of_first: ``own_parts`` of the first candidate, where it is compared with many.

    Returns:
        The test; ``None`` where nothing varies: fewer than two images, or no spread over seeds and images at all.
    """
    images = first.shape[1]
    if images < 2:
        return None
    parts = [parts_of_first or own_parts(first), own_parts(second)]
    seeds, both = [part[0] for part in parts], sum(part[1] for part in parts)
    per_image = first.mean(0) - second.mean(0)
    over_images = float(per_image.var(ddof=1)) / images
    variance = max(sum(seeds) + over_images - both, over_images, sum(seeds))
    if variance <= _rounding(first, second):
        return None
    joint = (parts[0][1], parts[1][1])
    counts = (len(first), len(second))
    return DifferenceTest(float(per_image.mean()), Variances((seeds[0], seeds[1]), joint, counts, variance, images))


def own_parts(runs: Runs) -> tuple[float, float]:
    """Return A and C of a candidate; 0 and 0 where it has no seeds, or fewer than two images."""
    seeds, images = runs.shape
    if seeds < 2 or images < 2:
        return 0.0, 0.0
    left = runs - runs.mean(0) - runs.mean(1)[:, None] + runs.mean()
    mean_square = float((left**2).sum()) / ((seeds - 1) * (images - 1))
    return float(runs.mean(1).var(ddof=1)) / seeds, mean_square / (seeds * images)


def _rounding(first: Runs, second: Runs) -> float:
    """Return the largest variance that rounding alone can cause."""
    return float((1e-12 * max(1.0, np.abs(first).max(), np.abs(second).max())) ** 2)
