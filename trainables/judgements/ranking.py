"""Ranks of judged candidates: the queries and the gallery of a direction, and their ranks by the scores of a model."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.judged_ranks import TOP, DirectionRanks, Integers
from trainables.positive_ranks import PairScores

Pairs = NDArray[np.int32]
"""Pairs of a query and a candidate, shape (2, P): places of queries, non-decreasing, and places in the gallery."""


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """One direction of retrieval.

    Attributes:
        queries: The queries, as indices of images or of captions in the split, shape (Q,).
        owners: The image that each query is or belongs to, as an index in the split, shape (Q,).
        gallery: The candidates, as indices of captions or of images in the split, shape (G,).
        positives: The pairs that fit: annotated, or judged to fit. Every query has at least one.
        annotated: The pairs of an image with a caption of its own. Every query has at least one.
        judged: All pairs that are known to fit or not to fit, the positives included; ``None`` where only pairs that
            fit are known.
        absent: How many pairs of each query fit whose candidate the split does not have, shape (Q,); ``None`` without
            any. They count among the R of R-Precision and mAP@R, and are never found.
    """

    queries: Integers
    owners: Integers
    gallery: Integers
    positives: Pairs
    annotated: Pairs
    judged: Pairs | None
    absent: Integers | None = None


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
