"""Claims about the order of losses by one metric and their values in another, whatever order is the true one.

The order by the first metric is measured, and so it may be wrong: two losses may be nearly equal there. A statement
about the order that happened to be measured is then true by chance. Noise of the first metric even helps it, because
both metrics are of the same trainings. So these claims hold only where they do for every order that the first metric
leaves possible [Berger1982]. Half of the error is for leaving out a true order, the other half for the second metric.

``same_best``   A loss l is left out where another one leads it by the first metric. Its p-value is the smallest of the
                others' leads, corrected for their number [Sidak1967]. Else l must not be behind any other by the margin
                in the second metric, an intersection. The p-value of l is twice the smaller of both, and that of the
                claim the largest of all losses.

``opposed``     With centred ranks c_l by the first metric, sum c_l y_l is the slope of the second over the ranks. It is
                the sum of sign(x_l - x_m) (y_l - y_m) / 2 over all pairs. A pair has the sign that was measured where
                its lead by the first metric is significant, corrected for all pairs of all groups. Else each of its
                signs is possible, and the largest slope and the largest error of all decide. The p-value is the
                one-sided one of the mean slope over the groups, twice. The variance of a slope is that of ``crossed``
                for sum c_l y_l in place of a difference. The effects of images in several groups are added as if they
                were the same images.

References:
    [Berger1982] Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24, 295-300.
    [Sidak1967] Sidak, Rectangular confidence regions for the means of multivariate normal distributions, J. American
        Statistical Association 62, 626-633.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.comparison import Comparison
from orchestrator.results.crossed import own_parts
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import one_sided, satterthwaite

MOST_OPEN = 8
"""Most pairs of a group whose order by the first metric may be open; with more, nothing is shown."""

Compare = Callable[[Runs, Runs, str], Comparison]
"""How two losses are compared by a metric."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shown:
    """What a claim about orders shows.

    Attributes:
        compared: The weakest link of ``same_best``: the pair on which it rests.
        value: The difference of this pair, or the mean slope over the ranks.
        p: One-sided p-value with which it holds.
        p_against: One-sided p-value with which its opposite holds.
    """

    value: float
    p: float
    p_against: float
    compared: Comparison | None = None


def p_above(compared: Comparison, bound: float) -> float:
    """Return the one-sided p-value of a true difference above a bound; 1 where nothing was tested."""
    p = compared.p_above(bound)
    return 1.0 if p is None else p


def same_best(losses: Sequence[Runs], metric: str, other: str, margin: float, compare: Compare) -> Shown:
    """Ask whether the best loss by a metric is the best by another one, or within a margin of it."""
    by_metric, by_other = _pairs(losses, metric, compare), _pairs(losses, other, compare)
    leader = max(range(len(losses)), key=lambda place: losses[place].mean(metric))
    links: list[tuple[float, float, Comparison]] = []
    for place in range(len(losses)):
        rivals = [rival for rival in range(len(losses)) if rival != place]
        leads = {rival: p_above(by_metric[rival, place], 0.0) for rival in rivals}
        within = {rival: p_above(by_other[place, rival], -margin) for rival in rivals}
        out, is_in = _smallest(leads.values()), max(within.values())
        is_bad = _smallest(p_above(by_other[rival, place], margin) for rival in rivals)
        weakest = max(rivals, key=lambda rival: (within[rival], by_other[rival, place].difference))
        shown = by_other[place, weakest]
        if place != leader and out < is_in:
            shown = by_metric[min(leads, key=leads.__getitem__), place]
        links.append((min(1.0, 2 * min(out, is_in)), min(1.0, 2 * min(out, is_bad)), shown))
    p, p_against = max(link[0] for link in links), max(link[1] for link in links)
    # An opposite is told of the loss that was measured as the best.
    compared = links[leader][2] if p_against < p else max(links, key=lambda link: (link[0], link is links[leader]))[2]
    return Shown(compared.difference, p, p_against, compared)


def _pairs(losses: Sequence[Runs], metric: str, compare: Compare) -> dict[tuple[int, int], Comparison]:
    """Return the places of two losses -> the first compared with the second."""
    pairs = {}
    for first, second in combinations(range(len(losses)), 2):
        pairs[first, second] = compare(losses[first], losses[second], metric)
        pairs[second, first] = pairs[first, second].turned()
    return pairs


def _smallest(p_values: Iterable[float]) -> float:
    """Return the smallest of some p-values, corrected for their number."""
    known = list(p_values)
    smallest = min(known)
    return 1.0 if smallest >= 1 else -math.expm1(len(known) * math.log1p(-smallest))


@dataclass(frozen=True)
class _Spread:
    """Means of a group's losses in a metric, (L,), their variances over seeds and images, and degrees of freedom."""

    means: Array
    seeds: Array
    joint: Array
    images: Array
    freedoms: Array
    count: int | None

    @classmethod
    def of(cls, losses: Sequence[Runs], metric: str) -> "_Spread":
        rows = [runs.image_rows(metric, runs.unit) for runs in losses]
        measures = [runs.measure(metric) for runs in losses]
        known = [row for row in rows if row is not None]
        is_crossed = len(known) == len(rows) and len({row.shape[1] for row in known}) == 1 and known[0].shape[1] > 1
        seeds = np.array([(measure.sample_std or 0.0) ** 2 / measure.seeds for measure in measures])
        joint, images = np.zeros(len(losses)), np.zeros((len(losses), len(losses)))
        if is_crossed:
            joint = np.array([own_parts(row)[1] for row in known])
            images = np.atleast_2d(np.cov(np.stack([row.mean(0) for row in known]))) / known[0].shape[1]
        freedoms = np.array([max(1.0, measure.seeds - 1.0) for measure in measures])
        count = known[0].shape[1] if is_crossed else None
        return cls(np.array([measure.mean for measure in measures]), seeds, joint, images, freedoms, count)

    def parts(self, weights: Array) -> tuple[Array, Array]:
        """Return the variances of sums with these weights, (N, L): over seeds, (N,), and beyond them by images."""
        seeds, joint = weights**2 @ self.seeds, weights**2 @ self.joint
        over_images = np.einsum("nl,lm,nm->n", weights, self.images, weights)
        return seeds, np.maximum(over_images - np.minimum(seeds, joint), 0.0)

    def freedom_parts(self, weights: Array) -> tuple[list[float], list[float]]:
        """Return the variances of the losses' means over seeds, and their degrees of freedom, as ``DifferenceTest``."""
        caution = 0.0 if self.count is None else 2.0
        return list(weights**2 * self.seeds * (1 + caution / self.freedoms)), list(self.freedoms)


def opposed(groups: Sequence[Sequence[Runs]], metric: str, other: str, compare: Compare) -> Shown:
    """Ask whether the means of a metric fall over the ranks of another one, in the mean over groups of losses."""
    pairs = list(combinations(range(len(groups[0])), 2))
    signs, p_order = np.zeros((len(groups), len(pairs))), np.ones((len(groups), len(pairs)))
    for group, losses in enumerate(groups):
        for place, (first, second) in enumerate(pairs):
            compared = compare(losses[first], losses[second], metric)
            signs[group, place] = np.sign(compared.difference)
            # Equal for certain is an order as well.
            lead = compared if compared.difference > 0 else compared.turned()
            p_order[group, place] = 0.0 if not compared.difference else min(1.0, p_above(lead, 0.0) * signs.size)
    spreads = [_Spread.of(losses, other) for losses in groups]
    slope = _slope(signs, spreads, pairs)
    p, p_against = (_over_orders(sign * signs, p_order, spreads, pairs) for sign in (1.0, -1.0))
    return Shown(slope, p, p_against)


def _slope(signs: Array, spreads: Sequence[_Spread], pairs: Sequence[tuple[int, int]]) -> float:
    """Return the mean change of the second metric a rank; 0 where no loss has another rank."""
    slopes = []
    for own, spread in zip(signs, spreads, strict=True):
        (weights,) = _weights(own[None], pairs, len(spread.means))
        square = float(weights @ weights)
        slopes.append(float(weights @ spread.means) / square if square else 0.0)
    return float(np.mean(slopes))


def _weights(signs: Array, pairs: Sequence[tuple[int, int]], count: int) -> Array:
    """Return the centred ranks of losses, (N, L), from the signs of their pairs, (N, P)."""
    weights = np.zeros((len(signs), count))
    for place, (first, second) in enumerate(pairs):
        weights[:, first] += signs[:, place] / 2
        weights[:, second] -= signs[:, place] / 2
    return weights


def _over_orders(signs: Array, p_order: Array, spreads: Sequence[_Spread], pairs: Sequence[tuple[int, int]]) -> float:
    """Return the p-value of a negative mean slope, for every order that the first metric leaves possible."""
    levels = [0.0, *sorted(set(p_order.ravel()) - {0.0})]
    # The higher the level at which an order is left out, the fewer are possible, and the smaller their largest p-value.
    first = bisect_left(levels, True, key=lambda level: _worst(signs, p_order > level, spreads, pairs) <= level)
    at = [levels[first]] if first < len(levels) else []
    below = [_worst(signs, p_order > levels[first - 1], spreads, pairs)] if first else []
    return min(1.0, 2 * min([*at, *below]))


def _worst(
    signs: Array, is_open: NDArray[np.bool_], spreads: Sequence[_Spread], pairs: Sequence[tuple[int, int]]
) -> float:
    """Return the largest p-value of a negative mean slope over the orders in which some pairs are open."""
    if is_open.sum(1).max() > MOST_OPEN:
        return 1.0
    sums, seeds, extra = [], [], []
    parts: list[float] = []
    freedoms: list[float] = []
    count = None
    for own, free, spread in zip(signs, is_open, spreads, strict=True):
        choices = np.array([(-1.0, 1.0) if one else (sign, sign) for one, sign in zip(free, own, strict=True)])
        possible = np.array(list(product(*(dict.fromkeys(choice) for choice in choices))))
        weights = _weights(possible, pairs, len(spread.means))
        of_seeds, of_images = spread.parts(weights)
        largest = int(np.argmax(of_seeds + of_images))
        sums.append(float((weights @ spread.means).max()))
        seeds.append(float(of_seeds[largest]))
        extra.append(math.sqrt(float(of_images[largest])))
        weighed, of_group = spread.freedom_parts(weights[largest])
        parts += weighed
        freedoms += of_group
        count = spread.count if count is None or (spread.count or count) < count else count
    mean, images = sum(sums) / len(sums), (sum(extra) / len(extra)) ** 2
    variance = sum(seeds) / len(seeds) ** 2 + images
    if variance <= 0:
        return float(mean >= 0)
    scaled = [part / len(seeds) ** 2 for part in parts]
    freedom = satterthwaite([*scaled, images], [*freedoms, (count or 2) - 1]) if sum(scaled) + images else 1.0
    return float(one_sided(-mean, math.sqrt(variance), freedom))
