"""Streams of proposals through the gate, through a single run each, and through Welch's test each time; simulated.

A stream's proposals are compared in fresh pairs, as ``orchestrator.gate`` runs them. ``cost`` counts runs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from orchestrator.results.sequential import discard_bound, findable_effect, keep_bound, level_of

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int, int], tuple[Array, Array]]
"""Generator, streams, place of the proposal from 0, pairs -> scores of champion and proposal, (streams, pairs) both."""

PAIRS = 20
"""Budget of pairs of a proposal."""

SEEDS = 5
"""Seeds of each side for Welch's test."""


@dataclass(frozen=True)
class Rates:
    """Of streams of which no proposal is better: the share that keeps one, and runs a proposal."""

    gate: float
    single: float
    welch: float
    cost: float


def bounds(place: int, pairs: int = PAIRS) -> tuple[Array, Array]:
    """Return the c at which the proposal at a place, from 0, is kept and is discarded, after each number of pairs."""
    level = level_of(place + 1)
    effect = findable_effect(pairs, level)
    keep = [keep_bound(count, level) for count in range(1, pairs + 1)]
    discard = [discard_bound(count, effect) if count > 1 else -math.inf for count in range(1, pairs + 1)]
    return np.array(keep), np.array(discard)


def through_the_gate(differences: Array, place: int) -> tuple[NDArray[np.bool_], Array]:
    """Return which streams keep the proposal, and its pairs, of differences of the shape (streams, pairs)."""
    keep, discard = bounds(place, differences.shape[1])
    squares = np.sqrt((differences**2).cumsum(1))
    cosine = np.divide(differences.cumsum(1), squares, out=np.zeros_like(squares), where=squares > 0)
    # The last step of the product ends every stream.
    kept, hopeless = cosine >= keep, cosine <= discard
    ends = kept | hopeless
    ends[:, -1] = True
    last = ends.argmax(1)
    return kept[np.arange(len(kept)), last], last + 1.0


def welch_keeps(champion: Array, proposal: Array) -> NDArray[np.bool_]:
    """Return where Welch's two-sided test at 5 % calls the proposal better."""
    count = champion.shape[1]
    parts = champion.var(1, ddof=1) / count, proposal.var(1, ddof=1) / count
    error = np.sqrt(parts[0] + parts[1])
    freedom = error**4 / ((parts[0] ** 2 + parts[1] ** 2) / (count - 1))
    statistic = (proposal.mean(1) - champion.mean(1)) / error
    return (2 * stdtr(freedom, -np.abs(statistic)) <= 0.05) & (statistic > 0)


def stream_rates(draw: Draw, streams: int, proposals: int, seed: int = 0) -> Rates:
    """Return how often streams keep a proposal, of a draw of which no proposal is better."""
    generator = np.random.default_rng(seed)
    erred = np.zeros((3, streams), dtype=bool)
    pairs_used = 0.0
    for place in range(proposals):
        champion, proposal = draw(generator, streams, place, PAIRS)
        kept, pairs = through_the_gate(proposal - champion, place)
        pairs_used += float(pairs.mean())
        erred[0] |= kept
        erred[1] |= proposal[:, 0] > champion[:, 0]
        erred[2] |= welch_keeps(champion[:, :SEEDS], proposal[:, :SEEDS])
    gate, single, welch = erred.mean(1)
    return Rates(float(gate), float(single), float(welch), 2 * pairs_used / proposals)


def power(effect: float, place: int, studies: int, seed: int = 0) -> Rates:
    """Return how often a proposal that is better by ``effect`` standard deviations of a score is kept."""
    generator = np.random.default_rng(seed)
    champion, proposal = generator.standard_normal((2, studies, PAIRS))
    proposal += effect
    kept, pairs = through_the_gate(proposal - champion, place)
    welch = welch_keeps(champion[:, :SEEDS], proposal[:, :SEEDS])
    single = proposal[:, 0] > champion[:, 0]
    return Rates(float(kept.mean()), float(single.mean()), float(welch.mean()), 2 * float(pairs.mean()))


def _normal(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    champion, proposal = generator.standard_normal((2, streams, pairs))
    return champion, proposal


def _unequal(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    champion, proposal = generator.standard_normal((2, streams, pairs))
    return champion, proposal * 4.0


def _drift(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    """Scores rise by a tenth of a standard deviation a run, and jump by two now and then; a coin orders each pair."""
    champion, proposal = generator.standard_normal((2, streams, pairs))
    level = 0.2 * (place * pairs + np.arange(pairs)) + 2.0 * (generator.random((streams, pairs)) < 0.05).cumsum(1)
    coin = generator.integers(2, size=(streams, pairs))
    return champion + level + 0.1 * coin, proposal + level + 0.1 * (1 - coin)


def _correlated(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    """A seed moves both sides alike, and the proposals share the slow part of their noise; every other one is worse."""
    shared = 3.0 * generator.standard_normal((streams, pairs))
    family = np.random.default_rng(place // 10).standard_normal((streams, pairs)) * 0.8
    champion, proposal = generator.standard_normal((2, streams, pairs)) * 0.6
    return champion + shared, proposal + shared + family - 0.3 * (place % 2)


def _heavy(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    champion, proposal = generator.standard_t(3, (2, streams, pairs))
    return champion, proposal


def _skewed(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    """The proposal's scores have a long tail to the left, the champion's to the right; the means are equal."""
    champion, proposal = generator.exponential(size=(2, streams, pairs))
    return champion - 1.0, 1.0 - proposal


def _coarse(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    """Accuracies of ten questions."""
    champion, proposal = generator.binomial(10, 0.8, (2, streams, pairs)) / 10
    return champion, proposal


def _collapsing(generator: np.random.Generator, streams: int, place: int, pairs: int) -> tuple[Array, Array]:
    """One in ten runs of the proposal collapses by 20; without collapse it is better by 2, so the means are equal."""
    champion, proposal = generator.standard_normal((2, streams, pairs))
    return champion, proposal + 2.0 - 20.0 * (generator.random((streams, pairs)) < 0.1)


NULLS: Mapping[str, Draw] = {
    "equal": _normal,
    "equal, four times the spread": _unequal,
    "drift and jumps": _drift,
    "correlated": _correlated,
}
"""Case that the proof covers, but for small effects of drift within a pair -> its draw."""

VIOLATIONS: Mapping[str, Draw] = {
    "tails of t(3)": _heavy,
    "opposite skewness": _skewed,
    "accuracy of ten questions": _coarse,
    "rare collapses": _collapsing,
}
"""Case that breaks the assumption of normal differences -> its draw."""
