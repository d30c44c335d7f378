"""The expected value over the settings of a study: a Gaussian process with error bars, and the set of best settings.

The values y of a study's settings are modelled as f(x) plus the noise of seeds, with x on [0, 1] of each range, on the
scale of the range. The function f is a Gaussian process with a Matérn-5/2 covariance and a length scale for each
parameter [Rasmussen2006]. A failing learning rate lies hundreds of points below the best, where differences say nothing
about the best settings. So the process sees compressed values: with t = max y - y and c the median of t,

    z = max y - t                       where t <= c
    z = max y - c (1 + log(t / c))      elsewhere

which keeps the upper half as it is, and can be inverted. Signal, length scales and noise are not known from 24 trials.
They are not set to the most likely values, which would make the bands too narrow, but averaged over draws: from a prior
and from a normal distribution around the weighted draws. The weights are marginal likelihoods (importance sampling).
The draws are computed together by NumPy; a test compares the process of each draw with scikit-learn's, which takes one
draw at a time.

The process believes that f is as smooth everywhere as where the trials lie, which are mostly around one peak. Where f
has a second peak or a narrow ridge, its error bars are too short: the more trials, the surer it is of the wrong peak.
So its standard deviations are made longer, it is asked about no place that is far from every trial, and it excludes no
place at which the trials beside it would not show a narrow peak:

    explored        places with a trial within ``NEAR_TRIAL`` in each parameter
    best settings   explored places whose f reaches f of the best explored place with a probability of at least
                    ``REACH``, by ``CAUTION`` times the standard deviation of their difference
    worse           other explored places where a trial excludes a peak as narrow as ``NARROWEST``; of the rest of the
                    space nothing is said
    the 95 % band   2 + d / 2 times the band of the process, for d parameters

The factors were chosen by simulation, with one and two peaks, ridges, plateaus and optima at an edge, of 12 to 96
trials, and then tried on peaks drawn at random (``python -m tests.benchmarks bands``; ``docs/reference/surface.md`` has
the rates).

References:
    [Rasmussen2006] Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2, 4 and 5. MIT Press
    [Roberts2018] Roberts, The unreasonable effectiveness of quasirandom sequences
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

REACH = 0.01
"""Least probability of reaching the best place with which a place belongs to the set of best settings."""

CAUTION = 1.5
"""Factor of the standard deviation of a difference between two places, by which they are compared."""

NEAR_TRIAL = 0.1
"""Largest distance from a trial, as a share of each range, at which a place is explored."""

NARROWEST = 0.06
"""Distance from its top at which the narrowest peak that is looked for has 37 % of its height, as a share of a range.

At half its height such a peak is a tenth of a range wide."""

SLACK = 2.0
"""Standard deviations of a trial's value by which it may be too low."""

DRAWS = 128
"""Draws of the unknown scales from the prior, and again around the weighted draws."""

KEPT = 16
"""Draws that predict, taken in proportion to their weights."""

PLACES = 512
"""Places all over the space at which the set is computed; places near the best trials come on top."""

NEAR_BEST = 8
"""Best settings around which further places lie, ``PER_BEST`` around each."""

PER_BEST = 24
NEAR = 0.06
"""Standard deviation of the further places, as a share of each range."""

MOST = 100
"""Most values that the process sees; of a larger study, means of neighbouring settings."""

STOPPED_SHARE = 0.4
"""Largest share of these values that is of settings that were stopped early."""

FEWEST_CURVES = 3
"""Fewest settings trained to their end from which the end of another setting is estimated."""

STOPPED_ERROR = 2.0
"""Error of such an estimate, in standard deviations of what the settings gained that were trained to their end."""

LENGTH, SIGNAL, NOISE = (math.log(0.5), 1.0), (0.0, 1.0), (math.log(0.3), 1.0)
"""Prior of the logarithms of a length scale and of the standard deviations of signal and seeds: mean and standard
deviation of a normal distribution. A length scale is a share of the range; the others are in standard deviations of the
compressed values."""

LEVEL = 2.0
"""Prior standard deviation of the mean of f, in standard deviations of the compressed values."""

_normal = np.vectorize(NormalDist().cdf, otypes=[float])
"""Distribution function of the standard normal distribution; an import of SciPy takes longer than thousands of them."""

Z95 = 1.959963984540054
"""Quantile of the normal distribution for intervals of 95 %."""


@dataclass(frozen=True)
class Observed:
    """The values of N settings with d parameters.

    Attributes:
        places: Where each setting lies in its ranges, shape (N, d), in [0, 1].
        values: Mean value of each setting, shape (N,), in the unit of the metric; larger is better.
        trainings: Number of trainings of each mean, shape (N,), >= 1.
        unsure: Standard deviation of a value beside the noise of seeds, shape (N,), >= 0. It is above 0 for a setting
            that was stopped early, whose value at the end is an estimate.
        noise: Standard deviation of one setting's value over seeds, > 0, where it was measured.
        freedom: Degrees of freedom of ``noise``.
    """

    places: Array
    values: Array
    trainings: Array
    unsure: Array
    noise: float | None = None
    freedom: int = 0

    def reduced(self, most: int) -> "Observed":
        """Return at most ``most`` values: of a larger study, the means of neighbouring settings.

        Means and not the best settings: of many settings the best are the luckiest. Settings that were stopped early
        are averaged among themselves, so that their estimates do not blur known values.
        """
        if len(self.values) <= most:
            return self
        groups: list[NDArray[np.intp]] = []
        stopped = np.flatnonzero(self.unsure > 0)
        share = round(most * min(len(stopped) / len(self.values), STOPPED_SHARE))
        for members, count in ((np.flatnonzero(self.unsure == 0), most - share), (stopped, share)):
            groups += _neighbours(self.places, members, count) if len(members) else []
        means = [self._mean_of(group) for group in groups]
        places, values, trainings, unsure = (np.array(column) for column in zip(*means, strict=True))
        return Observed(places, values, trainings, unsure, self.noise, self.freedom)

    def _mean_of(self, group: NDArray[np.intp]) -> tuple[Array, float, float, float]:
        """Return place, value, trainings and uncertainty of the mean of some settings."""
        values, count = self.values[group], len(group)
        # The spread within a group is in part that of f, which the mean of the group does not show.
        spread = float(values.var(ddof=1)) / count if count > 1 else 0.0
        unsure = math.sqrt(spread + float((self.unsure[group] ** 2).mean()))
        return self.places[group].mean(axis=0), float(values.mean()), float(self.trainings[group].sum()), unsure


def _neighbours(places: Array, members: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
    """Return groups of neighbouring settings: the largest group is halved along its widest side until ``count``."""
    groups = [members]
    while len(groups) < min(count, len(members)):
        groups.sort(key=len)
        largest = groups.pop()
        side = int(np.ptp(places[largest], axis=0).argmax())
        ordered = largest[np.argsort(places[largest, side], kind="stable")]
        groups += [ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]]
    return groups


@dataclass(frozen=True)
class Prediction:
    """The process at M places, for K draws of the scales, in standardised compressed values.

    Attributes:
        places: The places, shape (M, d).
        mean: Posterior means, shape (K, M).
        variance: Posterior variances, shape (K, M).
        explained: L^-1 k(X, places), shape (K, N, M), from which covariances between places follow.
    """

    places: Array
    mean: Array
    variance: Array
    explained: Array


class Surface:
    """A fitted surface over settings with at least two different values; the draws have a seed."""

    def __init__(self, observed: Observed, seed: int = 0) -> None:
        self._known = observed
        self.observed = observed.reduced(MOST)
        values = self.observed.values
        self._highest, self._lowest = float(values.max()), float(values.min())
        self._knee = max(float(np.median(self._highest - values)), 1e-9)
        compressed = self._compress(values)
        self._centre, self._spread = float(compressed.mean()), float(compressed.std()) or 1.0
        self._standardised = (compressed - self._centre) / self._spread
        self._squares = (self.observed.places[:, None, :] - self.observed.places[None, :, :]) ** 2
        self._scales, self._weights = self._draw(np.random.default_rng(seed))
        self._root = self._factor(self._scales)
        self._solved = _solve(self._root, self._standardised[:, None])[..., 0]
        self._places_seed = seed

    @cached_property
    def places(self) -> Array:
        """The places at which the set is computed, shape (M, d): all over the space, near the best, the settings."""
        generator, dimensions = np.random.default_rng(self._places_seed), self.observed.places.shape[1]
        everywhere = _everywhere(PLACES, dimensions)
        best = np.argsort(-self.observed.values, kind="stable")[:NEAR_BEST]
        steps = generator.normal(scale=NEAR, size=(PER_BEST, 1, dimensions))
        near = (self.observed.places[best] + steps).reshape(-1, dimensions)
        return np.vstack([everywhere, np.clip(near, 0, 1), self.observed.places])

    @cached_property
    def _predicted(self) -> Prediction:
        return self.predict(self.places)

    @cached_property
    def explored(self) -> NDArray[np.bool_]:
        """Which of ``places`` have a trial near them, shape (M,)."""
        return self.is_explored(self.places)

    @cached_property
    def best(self) -> int:
        """Index in ``places`` of the explored place with the highest posterior mean."""
        return int(np.where(self.explored, self._weights @ self._predicted.mean, -np.inf).argmax())

    @cached_property
    def is_best(self) -> NDArray[np.bool_]:
        """Which of ``places`` belong to the set of best settings, shape (M,)."""
        return self.holds(self._predicted)

    @property
    def share(self) -> float:
        """The share of the space that the set has, in [0, 1]."""
        return float(self.is_best[:PLACES].mean())

    @property
    def widths(self) -> Array:
        """The extent of the set in each parameter, as a share of that of the explored places, shape (d,)."""
        extents = [np.ptp(self.places[which], axis=0) for which in (self.is_best, self.explored)]
        widths: Array = extents[0] / extents[1]
        return widths

    @property
    def unexplored(self) -> float:
        """The share of the space that no trial shows to be worse, outside the set, in [0, 1]."""
        return 1 - float((self.is_best | self.excludes(self._predicted))[:PLACES].mean())

    def is_explored(self, places: Array) -> NDArray[np.bool_]:
        """Return which of some places, shape (M, d), have a trial near them."""
        # A trial at a time: all distances of thousands of trials at once would take gigabytes.
        explored = np.zeros(len(places), dtype=bool)
        for trial in self._known.places:
            explored |= (np.abs(places - trial) <= NEAR_TRIAL).all(axis=1)
        return explored

    def excludes(self, predicted: Prediction) -> NDArray[np.bool_]:
        """Return which places are shown to be worse than the best, shape (M,).

        Of other places outside the set nothing is said.

        A trial shows so where a peak of ``NARROWEST`` that passes ``SLACK`` standard deviations above its value ends
        below the best at the place. The lowest value is the foot of the peak.
        """
        known, noise = self._known, float(self._weights @ np.exp(self._scales[:, -1])) * self._spread
        above = known.values + SLACK * np.sqrt(noise**2 / known.trainings + known.unsure**2)
        foot = float(self._compress(known.values).min())
        best = self._centre + self._spread * float(self._weights @ self._predicted.mean[:, self.best])
        heights = (self._compress(np.minimum(above, self._highest)) - foot) / max(best - foot, 1e-9)
        radii = NARROWEST * np.sqrt(-np.log(np.clip(heights, 1e-9, 1)))
        shown = np.zeros(len(predicted.places), dtype=bool)
        for trial, radius in zip(known.places, radii, strict=True):
            shown |= ((predicted.places - trial) ** 2).sum(axis=1) < radius**2
        excluded: NDArray[np.bool_] = shown & self.is_explored(predicted.places) & ~self.holds(predicted)
        return excluded

    def holds(self, predicted: Prediction) -> NDArray[np.bool_]:
        """Return which places belong to the set of best settings, shape (M,)."""
        held: NDArray[np.bool_] = (self.reach(predicted) >= REACH) & self.is_explored(predicted.places)
        return held

    @cached_property
    def safest(self) -> Array:
        """The place of the set with the highest lower end, mean minus one standard deviation, shape (d,).

        The centre of the set is no such place: the centre of a bent ridge lies beside the ridge.
        """
        mean, deviation = self._moments(self._predicted)
        lower = np.where(self.is_best, mean - deviation, -np.inf)
        return self.places[int(lower.argmax())]

    def reach(self, predicted: Prediction) -> Array:
        """Return the probability that f of each place reaches f of the best explored place, shape (M,)."""
        best, known = slice(self.best, self.best + 1), self._predicted
        prior = self._covariance(self._scales, (predicted.places[:, None, :] - known.places[best]) ** 2)[..., 0]
        shared = prior - (predicted.explained * known.explained[:, :, best]).sum(axis=1)
        spread = np.sqrt(np.maximum(predicted.variance + known.variance[:, best] - 2 * shared, 1e-12))
        reached: Array = self._weights @ _normal((predicted.mean - known.mean[:, best]) / (CAUTION * spread))
        return reached

    def band(self, predicted: Prediction) -> tuple[Array, Array, Array]:
        """Return mean, lower and upper end of the 95 % band of f, all of shape (M,), in the unit of the metric.

        The band ends at the lowest value of the study: the process knows nothing of what lies below.
        """
        mean, deviation = self._moments(predicted)
        half = (2 + 0.5 * predicted.places.shape[1]) * Z95 * deviation
        return self._expand(mean), self._expand(mean - half), self._expand(mean + half)

    def change(self, parameter: int, steps: int = 41, draws: int = 400) -> tuple[float, float, float]:
        """Return how much f changes along a parameter, the others as in ``safest``: value, and ends of 95 %.

        The change is the difference between the highest and the lowest place of the mean. Both places are those of the
        mean, so that a parameter without effect has a change around 0, and not the range of the noise.
        """
        line = np.tile(self.safest, (steps, 1))
        line[:, parameter] = np.linspace(0, 1, steps)
        mean, _ = self._moments(self.predict(line))
        ends = line[[int(mean.argmax()), int(mean.argmin())]]
        at = self.predict(ends)
        shared = self._covariance(self._scales, (ends[:1] - ends[1:])[None] ** 2)[:, 0, 0]
        shared = shared - (at.explained[:, :, 0] * at.explained[:, :, 1]).sum(axis=1)
        generator = np.random.default_rng(self._places_seed)
        chosen = generator.choice(len(self._weights), size=draws, p=self._weights)
        first, second = generator.normal(size=(2, draws))
        deviation = np.sqrt(np.maximum(at.variance, 1e-12))
        likeness = np.clip(shared / (deviation[:, 0] * deviation[:, 1]), -1, 1)[chosen]
        high = at.mean[chosen, 0] + deviation[chosen, 0] * first
        low = at.mean[chosen, 1] + deviation[chosen, 1] * (likeness * first + np.sqrt(1 - likeness**2) * second)
        changes = self._expand(high) - self._expand(low)
        least, most = np.quantile(changes, [0.025, 0.975])
        return float(np.subtract(*self._expand(mean[[mean.argmax(), mean.argmin()]]))), float(least), float(most)

    def predict(self, places: Array) -> Prediction:
        """Return the process at places of shape (M, d)."""
        between = (self.observed.places[:, None, :] - places[None, :, :]) ** 2
        explained = _solve(self._root, self._covariance(self._scales, between))
        mean = (explained * self._solved[:, :, None]).sum(axis=1)
        variance = np.exp(2 * self._scales[:, :1]) + LEVEL**2 - (explained**2).sum(axis=1)
        return Prediction(places, mean, np.maximum(variance, 0), explained)

    def _moments(self, prediction: Prediction) -> tuple[Array, Array]:
        """Return mean and standard deviation over the draws, of shape (M,)."""
        mean = self._weights @ prediction.mean
        variance = self._weights @ (prediction.variance + (prediction.mean - mean) ** 2)
        return mean, np.sqrt(variance)

    def _compress(self, values: Array) -> Array:
        below = self._highest - values
        return self._highest - np.where(
            below <= self._knee, below, self._knee * (1 + np.log(np.maximum(below, self._knee) / self._knee))
        )

    def _expand(self, standardised: Array) -> Array:
        """Return standardised compressed values in the unit of the metric, at least the lowest value of the study."""
        below = self._highest - (self._centre + self._spread * standardised)
        stretched = self._knee * np.exp(np.minimum(below / self._knee - 1, 50))
        return np.maximum(self._highest - np.where(below <= self._knee, below, stretched), self._lowest)

    def _covariance(self, scales: Array, squares: Array) -> Array:
        """Return the prior covariance of f for K draws, shape (K, N, M), from squared steps of shape (N, M, d)."""
        flat = squares.reshape(-1, squares.shape[-1])
        distance = np.sqrt(5 * np.exp(-2 * scales[:, 1:-1]) @ flat.T).reshape(-1, *squares.shape[:-1])
        shape = (1 + distance + distance**2 / 3) * np.exp(-distance)
        covariance: Array = np.exp(2 * scales[:, :1, None]) * shape + LEVEL**2
        return covariance

    def _factor(self, scales: Array) -> Array:
        """Return the Cholesky factors of the covariance of the observed values, shape (K, N, N)."""
        covariance = self._covariance(scales, self._squares)
        seeds = np.exp(2 * scales[:, -1:]) / self.observed.trainings
        diagonal = np.arange(len(self._standardised))
        covariance[:, diagonal, diagonal] += seeds + (self.observed.unsure / self._spread) ** 2 + 1e-6
        return np.linalg.cholesky(covariance)

    def _likelihood(self, scales: Array) -> Array:
        """Return the logarithm of the marginal likelihood of each draw, up to a constant, shape (K,)."""
        root = self._factor(scales)
        solved = _solve(root, self._standardised[:, None])[..., 0]
        likelihood: Array = -0.5 * (solved**2).sum(axis=1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return likelihood

    def _draw(self, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return draws of the logarithms of signal, length scales and noise, shape (K, d + 2), and their weights."""
        noise = NOISE
        if self.observed.noise is not None:
            measured = math.log(max(self.observed.noise, 1e-9) / self._spread)
            noise = (max(measured, -6.0), max(0.1, 1 / math.sqrt(2 * max(self.observed.freedom, 1))))
        centre, width = np.array([SIGNAL, *[LENGTH] * self.observed.places.shape[1], noise]).T
        first = centre + width * generator.normal(size=(DRAWS, len(centre)))
        likely = self._likelihood(first)
        # Tempered weights: the best of few prior draws would have nearly all the weight, and no spread around it.
        weights = _weights(likely / 2)
        middle = weights @ first
        around = (first - middle).T @ ((first - middle) * weights[:, None]) + np.diag(0.02 * width**2)
        root = 1.2 * np.linalg.cholesky(around)
        second = middle + generator.normal(size=(DRAWS, len(centre))) @ root.T
        draws = np.vstack([first, second])
        prior = -0.5 * (((draws - centre) / width) ** 2).sum(axis=1) - np.log(width).sum()
        steps = np.linalg.solve(root, (draws - middle).T)
        proposed = -0.5 * (steps**2).sum(axis=0) - np.log(np.diag(root)).sum()
        likely = np.concatenate([likely, self._likelihood(second)])
        final = _weights(likely + prior - np.logaddexp(prior, proposed))
        cuts = (generator.random() + np.arange(KEPT)) / KEPT
        places = np.minimum(np.searchsorted(np.cumsum(final), cuts), len(final) - 1)
        kept, times = np.unique(places, return_counts=True)
        return draws[kept], times / KEPT


def _solve(root: Array, right: Array) -> Array:
    """Return L^-1 right for K factors L of shape (N, N)."""
    solved: Array = np.linalg.solve(root, np.broadcast_to(right, (len(root), *right.shape[-2:])))
    return solved


def _weights(logarithms: Array) -> Array:
    weights: Array = np.exp(logarithms - logarithms.max())
    return weights / weights.sum()


def _everywhere(count: int, dimensions: int) -> Array:
    """Return points spread evenly over the unit cube, shape (count, dimensions): the sequence of [Roberts2018]."""
    ratio = 2.0
    for _ in range(32):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    steps = ratio ** -np.arange(1.0, dimensions + 1)
    points: Array = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1
    return points


def spread_of(values: Sequence[Sequence[float]]) -> tuple[float | None, int]:
    """Return the standard deviation of a setting's value over its trainings, pooled, and its degrees of freedom."""
    groups = [np.asarray(group, dtype=float) for group in values if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return None, 0
    return math.sqrt(sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / freedom), freedom


def gain_to_end(epoch: int, finished: Sequence[Mapping[int, float]]) -> tuple[float, float] | None:
    """Estimate how much a setting that was stopped at an epoch would have gained until its end.

    The estimate is the median gain of the settings that were trained to their end. These settings were better, and
    other settings learn faster or more slowly. So the error is taken to be ``STOPPED_ERROR`` times their spread, or
    half the gain where that is more.

    ``finished`` is epoch -> best value so far, of each setting that was trained to its end.

    Returns:
        The gain and its standard deviation; ``None`` with fewer than ``FEWEST_CURVES`` settings to learn from.
    """
    gains = np.array([curve[max(curve)] - curve[epoch] for curve in finished if epoch in curve])
    if len(gains) < FEWEST_CURVES:
        return None
    gain = float(np.median(gains))
    return gain, STOPPED_ERROR * max(float(gains.std(ddof=1)), gain / 2)
