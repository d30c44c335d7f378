"""Ranks of judged candidates of one direction by the scores of a model."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from trainables.judged_ranks import TOP, DirectionRanks, Integers
from trainables.judgements.queries import JudgedQueries, Pairs
from trainables.positive_ranks import PairScores

QUERIES_AT_A_TIME = 256
"""Number of queries ranked at a time; limits memory and changes no result."""


def rank_direction(
    ask: Callable[[Tensor, Tensor], Tensor], direction: JudgedQueries, scores: PairScores
) -> DirectionRanks:
    """Rank the candidates of one direction; ``ask`` returns the scores of queries with candidates."""
    sides = direction.queries, direction.gallery
    queries, gallery = (torch.from_numpy(places.astype(np.int64)).to(scores.device) for places in sides)
    parts: list[tuple[Integers, ...]] = []
    for first in range(0, len(queries), QUERIES_AT_A_TIME):
        rows = slice(first, first + QUERIES_AT_A_TIME)
        # Scores round: a wrong candidate within rounding of a right candidate is a tie, and ranks first.
        parts.append(_rank_block(ask(queries[rows], gallery), direction, first, scores.tolerance))
    positions, annotated, condensed, known = (np.concatenate(part) for part in zip(*parts, strict=True))
    counts = np.bincount(direction.positives[0], minlength=len(queries)).astype(np.int32)
    if direction.absent is not None:
        # What is no candidate is behind all candidates.
        positions = np.insert(positions, np.repeat(np.cumsum(counts), direction.absent), len(gallery) + 1)
        counts = counts + direction.absent
    return DirectionRanks(direction.owners, counts, positions, annotated, condensed, known)


def _rank_block(scores: Tensor, direction: JudgedQueries, first: int, tolerance: float) -> tuple[Integers, ...]:
    """Return positions, annotated ranks, condensed positions and known candidates of some queries."""
    positives = _mask(direction.positives, scores, first)
    annotated = _mask(direction.annotated, scores, first)
    positions = _positions(scores, positives, ~positives, tolerance)
    own = _positions(scores, annotated, ~annotated, tolerance)
    best = np.cumsum([0, *annotated.sum(1).tolist()])[:-1]
    nothing = np.empty(0, dtype=np.int32)
    if direction.judged is None:
        return positions, own[best], nothing, nothing
    judged = _mask(direction.judged, scores, first)
    top = scores.topk(min(TOP, scores.shape[1])).indices
    known = judged.gather(1, top).sum(1).cpu().numpy().astype(np.int32)
    return positions, own[best], _positions(scores, positives, judged & ~positives, tolerance), known


def _mask(pairs: Pairs, scores: Tensor, first: int) -> Tensor:
    """Return which candidates belong to some pairs, bool, in the shape of the scores of queries from the first on."""
    low, high = np.searchsorted(pairs[0], [first, first + len(scores)])
    rows, columns = torch.from_numpy(pairs[:, low:high].astype(np.int64)).to(scores.device)
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask[rows - first, columns] = True
    return mask


def _positions(scores: Tensor, positives: Tensor, against: Tensor, tolerance: float) -> Integers:
    """Return the positions of positives among themselves and the candidates of ``against``, query after query."""
    counts = positives.sum(1)
    best = scores.masked_fill(~positives, -torch.inf).topk(int(counts.max())).values
    others = scores.masked_fill(~against, -torch.inf).sort(1).values
    harder = others.shape[1] - torch.searchsorted(others, best - tolerance)
    place = torch.arange(1, best.shape[1] + 1, device=scores.device)
    positions: Integers = (harder + place)[place <= counts[:, None]].cpu().numpy().astype(np.int32)
    return positions
