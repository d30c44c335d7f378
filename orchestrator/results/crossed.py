"""Two candidates compared over seeds and images: what other seeds, on other images of this kind, would say.

The value of image i in the run with seed s of a candidate is y_si = m + a_s + b_i + e_si, with random effects of the
seed, of the image (much alike in both candidates) and of both together. The variance of the difference of two means
over S seeds and I images is estimated by [Searle1992]

    V = A_1 + A_2 + B - C_1 - C_2          (not below B, nor below A_1 + A_2)
    A = variance of a candidate's run means / S             what seeds do; e is in it
    B = variance of the difference per image / I            what images do; e is in it again, so it is taken off once:
    C = mean square of what seed and image leave of y / (S I)

and the difference divided by sqrt(V) is compared with Student's distribution. Its degrees of freedom are
Satterthwaite's of A_1, A_2 and the rest, with each A counted 1 + 2 / (S - 1) times there: of three seeds A is often far
too small by luck, and then claims that images, of which there are many, are all that varies. A candidate without seeds
has A = 0 and C = 0, and its one run says all there is.

Why not the crossed bootstrap, which draws seeds and images again: of S seeds it sees (S - 1) / S of the variance, and
no distribution with few degrees of freedom. Where seeds are most of the spread, it calls 28 % of pairs without a
difference different with 2 seeds, 17 % with 3 and 10 % with 5, at a level of 4 %; where images are most of it, it
counts e three times [Owen2007] and finds less than this test. ``python -m tests.benchmarks verdicts`` simulates both.

References:
    [Searle1992] Searle, Casella and McCulloch, Variance Components, section 4.4: the two-way crossed random model.
    [Satterthwaite1946] Satterthwaite, An approximate distribution of estimates of variance components, Biometrics 2.
    [Owen2007] Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 386-411.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.statistics import Interval, around, two_sided

Runs = NDArray[np.float64]
"""The values of a candidate's runs, shape (S, I): a row a seed, a column an image."""


@dataclass(frozen=True)
class CrossedTest:
    """A difference of two candidates with its error over seeds and images.

    Attributes:
        difference: Mean of the first minus mean of the second, in the metric's unit.
        seed_variance: A_1 + A_2 - C_1 - C_2: the part of V that only more seeds make smaller, >= 0.
        image_variance: B - C_1 - C_2: the part of V that only more images make smaller, >= 0.
        joint_variance: C_1 + C_2: the part of V that both make smaller, >= 0.
        freedom: Degrees of freedom.
    """

    difference: float
    seed_variance: float
    image_variance: float
    joint_variance: float
    freedom: float

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return math.sqrt(self.seed_variance + self.image_variance + self.joint_variance)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the difference."""
        return around(self.difference, self.error, self.freedom)

    @property
    def p(self) -> float:
        """Probability of so large a difference, either way, if there were none; two-sided."""
        return two_sided(self.difference / self.error, self.freedom)

    def probability_beyond(self, least: float) -> float:
        """Return how sure it is that the first is better than the second by at least so much.

        The one-sided confidence, which is the probability where nothing was known beforehand.
        """
        away = two_sided((self.difference - least) / self.error, self.freedom) / 2
        return 1 - away if self.difference > least else away

    def reach(self, *, seeds: float = 1, images: float = 1) -> float:
        """Return the smallest difference whose interval leaves out 0, with so many times the seeds and images."""
        joint = self.joint_variance / (seeds * images)
        error = math.sqrt(self.seed_variance / seeds + self.image_variance / images + joint)
        return around(0, error, self.freedom).high


def crossed_test(first: Runs, second: Runs) -> CrossedTest | None:
    """Compare two candidates over their seeds and the images that both were evaluated on.

    Args:
        first: Shape (S1, I); a single row is a candidate without seeds, whose further runs would give equal values.
        second: Shape (S2, I), of the same images in the same order.

    Returns:
        The test; ``None`` where nothing varies: fewer than two images, or no spread over seeds and images at all.
    """
    images = first.shape[1]
    if images < 2:
        return None
    parts = [_parts(runs) for runs in (first, second)]
    seeds, both = [part[0] for part in parts], sum(part[1] for part in parts)
    per_image = first.mean(0) - second.mean(0)
    over_images = float(per_image.var(ddof=1)) / images
    variance = max(sum(seeds) + over_images - both, over_images, sum(seeds))
    if variance <= _rounding(first, second):
        return None
    rest = max(0.0, variance - sum(seeds))
    freedoms = [max(1, len(runs) - 1) for runs in (first, second)]
    weighed = [part * (1 + 2 / freedom) for part, freedom in zip(seeds, freedoms, strict=True)]
    squares = sum(part**2 / freedom for part, freedom in zip(weighed, freedoms, strict=True)) + rest**2 / (images - 1)
    of_seeds = max(0.0, sum(seeds) - both)
    joint = min(both, variance - of_seeds)
    return CrossedTest(
        difference=float(per_image.mean()),
        seed_variance=of_seeds,
        image_variance=max(0.0, variance - of_seeds - joint),
        joint_variance=joint,
        freedom=(sum(weighed) + rest) ** 2 / squares,
    )


def _parts(runs: Runs) -> tuple[float, float]:
    """Return A and C of a candidate; 0 and 0 where it has no seeds."""
    seeds, images = runs.shape
    if seeds < 2:
        return 0.0, 0.0
    left = runs - runs.mean(0) - runs.mean(1)[:, None] + runs.mean()
    mean_square = float((left**2).sum()) / ((seeds - 1) * (images - 1))
    return float(runs.mean(1).var(ddof=1)) / seeds, mean_square / (seeds * images)


def _rounding(first: Runs, second: Runs) -> float:
    """Return a variance that rounding alone can make."""
    return float((1e-12 * max(1.0, np.abs(first).max(), np.abs(second).max())) ** 2)
