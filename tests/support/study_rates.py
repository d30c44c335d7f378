"""Confirmations by the thousand: the rules of a verdict written again in arrays, as an oracle of what is stated.

Every study is drawn from normal values in which val and test are the same numbers: the worst case, in which the metric
that is tested is the one that selected.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

Array = np.ndarray


@dataclass(frozen=True)
class Studies:
    """Verdicts of studies, of baseline and rival alone: 1 better, 0 tie or none, -1 worse, shape (studies,)."""

    verdicts: Array
    baseline: Array
    rival: Array


def judge_studies(scores: Array, *, level: float, baseline: bool = True, kinds: Array | None = None) -> Studies:
    """Judge scores of shape (studies, candidates, seeds), the baseline last; ``kinds`` are the candidates' losses."""
    studies, candidates, _ = scores.shape
    kinds = np.arange(candidates) if kinds is None else kinds
    every = np.arange(studies)
    order = np.argsort(-scores.mean(-1), axis=1, kind="stable")
    winner, second = order[:, 0], order[:, 1]
    other_kind = kinds[order] != kinds[winner][:, None]
    rival = np.where(other_kind.any(1), order[every, other_kind.argmax(1)], -1)
    rival = np.where(kinds[second] == kinds[winner], rival, -1)
    last = np.where(baseline & (winner != candidates - 1), candidates - 1, -1)
    roles = np.stack([second, rival, last])
    chances = np.stack([np.ones(studies), (kinds == kinds[winner][:, None]).sum(1), np.full(studies, candidates - 1)])
    # A candidate that has several roles is compared once, as the one of them that pays for most candidates.
    for later, earlier in ((1, 0), (2, 0), (2, 1)):
        same = (roles[later] == roles[earlier]) & (roles[later] >= 0)
        chances[earlier] = np.where(same, chances[later], chances[earlier])
        roles[later] = np.where(same, -2 - earlier, roles[later])
    there = roles >= 0
    tests = [welch(scores[every, winner], scores[every, np.maximum(role, 0)]) for role in roles]
    lead = np.stack([difference for difference, _ in tests])
    p = np.where(there, np.stack([p for _, p in tests]), np.inf)
    corrected = np.where(lead > 0, np.maximum(holm(p), 1 - (1 - np.minimum(p, 1) / 2) ** chances), holm(p))
    leads, all_p = welch(scores[every, winner][:, None], np.take_along_axis(scores, order[:, 1:, None], 1))
    one_way = np.where(leads > 0, all_p, 1.0)
    largest = one_way.max(1)
    found = np.where(there & (np.minimum(corrected, largest) <= level), np.sign(lead), 0)
    closest = one_way.argmax(1)
    shown = (order[every, closest + 1] == np.where(there, roles, -1)).any(0)
    worse = (leads[every, closest] < 0) & (all_p[every, closest] * (candidates - 1) <= level)
    verdicts = np.where(there, found, 2).min(0)
    verdicts = np.where((largest > level) & ~shown, np.minimum(verdicts, np.where(worse, -1, 0)), verdicts)
    by_role = [np.where(roles[2] == -2, found[0], np.where(roles[2] == -3, found[1], found[2])), found[1]]
    return Studies(verdicts, *by_role)


def welch(first: Array, second: Array) -> tuple[Array, Array]:
    """Return differences of means and two-sided p-values of Welch's test over the last axis."""
    count = first.shape[-1]
    left, right = (values.var(-1, ddof=1) / count for values in (first, second))
    freedom = (left + right) ** 2 / np.maximum((left**2 + right**2) / (count - 1), 1e-300)
    difference = first.mean(-1) - second.mean(-1)
    return difference, 2 * stdtr(freedom, -np.abs(difference) / np.sqrt(np.maximum(left + right, 1e-300)))


def holm(p: Array) -> Array:
    """Return Holm's p-values over the first axis; an infinite p is no comparison."""
    order = np.argsort(p, axis=0, kind="stable")
    ranked = np.take_along_axis(p, order, axis=0)
    left = np.isfinite(p).sum(0) - np.arange(len(p))[:, None]
    stepped = np.maximum.accumulate(np.minimum(ranked * np.maximum(left, 1), 1.0), axis=0)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, stepped, axis=0)
    return corrected


def draw(
    generator: np.random.Generator,
    studies: int,
    candidates: int,
    seeds: int,
    *,
    lead: float = 0.0,
    spreads: Array | float = 1.0,
) -> Array:
    """Return scores, shape (studies, candidates, seeds); the first candidate leads, in its own standard deviations."""
    scale = np.broadcast_to(np.asarray(spreads, dtype=np.float64), (candidates,))[:, None]
    scores = scale * generator.standard_normal((studies, candidates, seeds))
    scores[:, 0] += lead * scale[0]
    return scores
