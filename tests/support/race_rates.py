"""Confirmations by the thousand: designs that give out trainings, in arrays, as an oracle of what is stated about them.

Every study is drawn with val and test the same numbers: the worst case, in which the metric that is tested is the one
that selected and gave out the seeds. All studies of a case go through a design together.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from orchestrator.results.race import CLEAR, LEVEL, first_seeds
from orchestrator.results.verdict import LEVEL as FIXED_LEVEL
from tests.support.study_rates import Array


@dataclass(frozen=True)
class Outcome:
    """Of each study the largest p of the winner's leads (1 where it does not lead), the winner, and all seeds given."""

    p: Array
    level: float
    winner: Array
    counts: Array

    @property
    def better(self) -> Array:
        """Whether the winner beat every other candidate, shape (studies,)."""
        return self.p <= self.level

    @property
    def found(self) -> float:
        """Share of the studies in which the first candidate was called better."""
        return float((self.better & (self.winner == 0)).mean())


class Scores:
    """Studies over seeds, of scores of shape (studies, candidates, seeds)."""

    def __init__(self, scores: Array) -> None:
        self.studies, self.candidates, self.most = scores.shape
        self.sums, self.squares = _running(scores), _running(scores**2)
        self.alone = self

    def means(self, counts: Array, rows: Array) -> Array:
        """Return the means of the first so many seeds, shape (rows, candidates)."""
        return _pick(self.sums, counts, rows) / counts

    def residuals(self, counts: Array, rows: Array) -> Array:
        """Return the sums of the squared deviations from the means."""
        return np.maximum(_pick(self.squares, counts, rows) - counts * self.means(counts, rows) ** 2, 1e-12)

    def errors(self, counts: Array, rows: Array) -> Array:
        """Return the squared standard errors of the means."""
        return self.residuals(counts, rows) / (counts - 1) / counts

    def lead_p(self, counts: Array, leader: Array, rows: Array) -> Array:
        """Return the two-sided p of the leads by Welch's test: 1 where there is none, -1 of the leader itself."""
        every = np.arange(len(rows))
        means, errors = self.means(counts, rows), self.errors(counts, rows)
        own, freedom = errors[every, leader][:, None], counts[every, leader][:, None] - 1
        degrees = (own + errors) ** 2 / (own**2 / freedom + errors**2 / (counts - 1))
        return _one_way(means, leader, np.sqrt(own + errors), degrees)


class Runs:
    """Studies over seeds and images, by their sufficient statistics; seeds are given out by the means over the images.

    The value of a run on an image is the effect of the image, plus that of the seed, plus that of both together. What
    is left of the joint effects without their mean over the images is independent of that mean: its mean over n seeds
    is normal with a variance of 1 / n, and its sum of squares has a chi-squared distribution. So a study needs no run.
    """

    def __init__(self, scores: Array, of_image: Array, joint: Array, generator: np.random.Generator) -> None:
        self.studies, self.candidates, self.images = of_image.shape
        self.alone = Scores(scores)
        self.of_image = of_image - of_image.mean(-1, keepdims=True)
        self.joint, self.generator = joint, generator
        left = generator.standard_normal(of_image.shape)
        self.left = joint[:, None] * (left - left.mean(-1, keepdims=True))

    def lead_p(self, counts: Array, leader: Array, rows: Array) -> Array:
        """See ``Scores``, by the crossed test of ``orchestrator.results.crossed``."""
        left = self.left[rows] / np.sqrt(counts)[..., None]
        by_image = self.alone.means(counts, rows)[..., None] + self.of_image[rows] + left
        squares = self.joint**2 * self.generator.chisquare((counts - 1) * (self.images - 1))
        return crossed_lead_p(by_image, self.alone.residuals(counts, rows), squares, counts, leader)


Values = Scores | Runs


def crossed_lead_p(by_image: Array, residuals: Array, squares: Array, counts: Array, leader: Array) -> Array:
    """Return the two-sided p-values of the leads of many studies, as ``orchestrator.results.crossed`` computes them.

    ``by_image`` are means over the seeds, shape (studies, candidates, images); ``residuals`` and ``squares`` are sums
    of squares over the seeds, and over what seeds and images leave, shape (studies, candidates).
    """
    every, images = np.arange(len(by_image)), by_image.shape[-1]
    seeds = residuals / (counts - 1) / counts
    joint = squares / ((counts - 1) * (images - 1)) / (counts * images)
    apart = (by_image[every, leader][:, None] - by_image).var(-1, ddof=1) / images
    own, freedom = seeds[every, leader][:, None], counts[every, leader][:, None] - 1
    both = seeds + own
    total = np.maximum(np.maximum(both + apart - joint - joint[every, leader][:, None], apart), both)
    rest = np.maximum(0, total - both)
    ours, theirs = own * (1 + 2 / freedom), seeds * (1 + 2 / (counts - 1))
    parts = ours**2 / freedom + theirs**2 / (counts - 1) + rest**2 / (images - 1)
    return _one_way(by_image.mean(-1), leader, np.sqrt(total), (ours + theirs + rest) ** 2 / parts)


def fixed(values: Values, trainings: int, level: float = FIXED_LEVEL) -> Outcome:
    """Give every candidate the same number of seeds."""
    counts = np.full((values.studies, values.candidates), trainings // values.candidates)
    return _judged(values, counts, level)


def race(values: Values, trainings: int, level: float = LEVEL) -> Outcome:
    """Give most trainings to all alike and the others to leader and closest, as ``orchestrator.results.race`` does."""
    count = values.candidates
    counts = np.full((values.studies, count), first_seeds(trainings, count))
    rows = np.arange(values.studies)
    while len(rows):
        every, own = np.arange(len(rows)), counts[rows]
        means = values.alone.means(own, rows)
        leader = means.argmax(1)
        p = values.alone.lead_p(own, leader, rows)
        # Of candidates that are not behind, all with p = 1, the highest is closest.
        closest = np.where(p == p.max(1)[:, None], means, -np.inf).argmax(1)
        fewest = np.minimum(own[every, leader], own[every, closest])
        further = np.minimum(np.maximum(1, fewest // 4), (trainings - own.sum(1)) // 2)
        goes = (further > 0) & (p[every, closest] > CLEAR)
        rows, further = rows[goes], further[goes]
        counts[rows, leader[goes]] += further
        counts[rows, closest[goes]] += further
    return _judged(values, counts, level)


def draw_values(
    generator: np.random.Generator,
    studies: int,
    means: Array,
    trainings: int,
    *,
    spreads: Array | float = 1.0,
    tails: str = "normal",
    likeness: float | None = None,
    images: int = 50,
) -> Values:
    """Return studies of candidates with as many seeds as any design may give one of them.

    Means are in standard deviations over the seeds; ``likeness`` is the correlation of what an image is worth to two
    candidates, ``None`` for a study over seeds alone; ``t3`` is Student's t with 3 degrees of freedom.
    """
    means = np.asarray(means, dtype=np.float64)
    count = len(means)
    scale = np.broadcast_to(np.asarray(spreads, dtype=np.float64), (count,))[:, None]
    shape = (studies, count, trainings // count + (trainings - min(3, trainings // count) * count) // 2 + 1)
    noise = generator.standard_normal(shape) if tails == "normal" else generator.standard_t(3, shape) / np.sqrt(3)
    if likeness is None:
        return Scores(means[:, None] + scale * noise)
    common = generator.standard_normal((studies, 1, images))
    own = generator.standard_normal((studies, count, images))
    of_image = np.sqrt(images) * (np.sqrt(likeness) * common + np.sqrt(1 - likeness) * own)
    together = generator.standard_normal(shape)
    scores = means[:, None] + of_image.mean(-1, keepdims=True) + scale * (noise + together) / np.sqrt(2)
    return Runs(scores, of_image, scale[:, 0] * np.sqrt(images / 2), generator)


def _judged(values: Values, counts: Array, level: float) -> Outcome:
    rows = np.arange(values.studies)
    winner = values.alone.means(counts, rows).argmax(1)
    return Outcome(values.lead_p(counts, winner, rows).max(1), level, winner, counts)


def _one_way(means: Array, leader: Array, errors: Array, freedom: Array) -> Array:
    every = np.arange(len(means))
    lead = means[every, leader][:, None] - means
    p = np.where(lead > 0, 2 * stdtr(freedom, -np.abs(lead) / errors), 1.0)
    p[every, leader] = -1.0
    return p


def _running(values: Array) -> Array:
    """Return the sums of the first 0, 1, 2 ... seeds."""
    return np.concatenate([np.zeros((*values.shape[:2], 1)), values.cumsum(-1)], -1)


def _pick(sums: Array, counts: Array, rows: Array) -> Array:
    return sums[rows[:, None], np.arange(sums.shape[1]), counts]
