"""Answers by the thousand: the rules of ``results.winner_family`` in arrays, as an oracle of its error rates.

A study is drawn with val and test the same numbers, as in ``race_rates``: the worst case, in which the metric that is
tested is the one that selected the winner. A *false beats* is the claim that the winner beats a candidate whose true
mean is at least as high, in any view of the pair.
"""

from dataclasses import dataclass

import numpy as np

from orchestrator.results.verdict import LEVEL
from tests.support.race_rates import Values, draw_values
from tests.support.study_rates import Array, holm


@dataclass(frozen=True)
class Words:
    """The word on each pair of a winner: a value a study, or a row a study with a column a candidate."""

    winner: Array
    beats: Array
    own: Array

    def false(self, means: Array, baseline: int) -> dict[str, float]:
        """Return the share of the studies with a false *beats* in (a), (b), (c), and in any of them."""
        equal = means[None] >= means[self.winner][:, None]
        equal[np.arange(len(equal)), self.winner] = False
        wrong = self.beats & equal
        shares = {"a": (wrong & ~self.own).any(1), "b": (wrong & self.own).any(1), "c": wrong[:, baseline]}
        return {name: float(share.mean()) for name, share in {**shares, "any": wrong.any(1)}.items()}


def answer_studies(p: Array, means: Array, kinds: Array, baseline: int | None, level: float = LEVEL) -> Words:
    """Answer questions by p-values of leads, 1 where the winner does not lead, -1 of itself: (studies, candidates)."""
    studies, candidates = p.shape
    every, winner = np.arange(studies), p.argmin(1)
    own = kinds[None] == kinds[winner][:, None]
    rivals = own.copy()
    rivals[every, winner] = False
    sizes = (kinds[:, None] == kinds[None]).sum(1)
    best = np.stack([means == np.where(kinds == kind, means, -np.inf).max(1)[:, None] for kind in kinds]).any(0)
    shown = best & ~own
    named = np.full(p.shape, np.inf)
    if baseline is not None:
        named[:, baseline] = _luckiest(p, np.array(2 * candidates))[:, baseline]
    # (a)
    whole = np.where(own, 0.0, _luckiest(p, sizes[winner][:, None])).max(1)[:, None]
    alone = _luckiest(p, candidates - sizes[None])
    hidden = _holm(_luckiest(p, np.array(candidates)), ~own)
    of_losses = np.minimum(np.where(shown, _holm(alone, shown), hidden), np.minimum(whole, named))
    beats = ~own & (of_losses <= level)
    # (b)
    unbeaten = (1 + (shown & ~beats & (sizes > 1)[None]).sum(1)) * np.where((beats | own).all(1), 1, 2)
    whole = np.where(rivals, _luckiest(p, 2 * unbeaten[:, None]), 0.0).max(1)[:, None]
    alone = _holm(_luckiest(p, (own.sum(1) * unbeaten)[:, None]), rivals)
    beats |= rivals & (np.minimum(alone, np.minimum(whole, named)) <= level)
    return Words(winner, beats, own)


def p_values(values: Values, seeds: int) -> tuple[Array, Array]:
    """Return the p-values of the winners' leads, as ``answer_studies`` takes them, and the measured means."""
    counts, rows = np.full((values.studies, values.candidates), seeds), np.arange(values.studies)
    means = values.alone.means(counts, rows)
    return values.lead_p(counts, means.argmax(1), rows), means


def _luckiest(p: Array, chances: Array) -> Array:
    """Return the p-values of leads, at least those of the luckiest of several candidates; 1 stays 1."""
    known = np.clip(p, 0.0, 1.0)
    return np.where(known < 1, np.maximum(known, -np.expm1(chances * np.log1p(-known / 2))), 1.0)


def _holm(p: Array, shown: Array) -> Array:
    """Return Holm's p-values over the shown candidates of each study; infinite for the others."""
    return np.where(shown, holm(np.where(shown, p, np.inf).T).T, np.inf)


NULLS = ("all equal", "bests of two losses", "bests of one loss", "many against one")


def true_means(null: str, losses: int, settings: int, behind: float) -> Array | None:
    """Return the true means of the candidates, a loss after the other; ``None`` where the null needs more of them."""
    means = np.full((losses, settings), -behind)
    if null == "all equal":
        means[:] = 0.0
    elif null == "bests of two losses" and losses > 1:
        means[:2, 0] = 0.0
    elif null == "bests of one loss" and settings > 1:
        means[0, :2] = 0.0
    elif null == "many against one" and min(losses, settings) > 1:
        means[0], means[1, 0] = 0.0, 0.0
    else:
        return None
    return means.ravel()


def false_rates(
    generator: np.random.Generator,
    studies: int,
    means: Array,
    losses: int,
    seeds: int,
    *,
    spreads: Array | float = 1.0,
    likeness: float | None = None,
) -> dict[str, float]:
    """Return the share of simulated studies with a false *beats* in (a), (b), (c), and in any of them.

    The baseline is the second of the candidates with the highest true mean, which is the hardest.
    """
    kinds = np.repeat(np.arange(losses), len(means) // losses)
    baseline = int(np.flatnonzero(means == means.max())[1])
    values = draw_values(generator, studies, means, seeds * len(means), spreads=spreads, likeness=likeness)
    p, measured = p_values(values, seeds)
    return answer_studies(p, measured, kinds, baseline).false(means, baseline)
