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

The unit is the image with its captions. ``trainables.metric_values`` has the value of each image. The candidates of a
query (the gallery) are fixed, because a rank among other candidates is not known without the model. The file
``docs/evidence/verdict-errors.md`` measures the variation that this leaves out.

References:
    [Searle1992] Searle, Casella and McCulloch, Variance Components, section 4.4: the two-way crossed random model.
    [Satterthwaite1946] Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2.
    [Owen2007] Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 386-411.
"""

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.statistics import DifferenceTest

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
