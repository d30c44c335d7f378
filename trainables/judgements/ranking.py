"""Rank the candidates that people judged, from embeddings; see ``judged_ranks`` for what is counted."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.judgements.judged_ranks import TOP, DirectionRanks, JudgedRanks
from trainables.judgements.judgements import Integers, JudgedQueries, Judgements, Pairs
from trainables.positive_ranks import ROUNDING

QUERIES_AT_A_TIME = 256
"""Bounds memory, changes no number."""


def rank_judged(images: Tensor, captions: Tensor, judgements: Judgements) -> JudgedRanks:
    """Return where dot products of embeddings put the candidates that fit.

    Args:
        images: Of all images of the split, shape (I, D), floating, finite.
        captions: Of all captions of the split, shape (C, D), on the same device.
        judgements: Of the split.
    """
    return JudgedRanks(
        judgements.name,
        judgements.digest,
        _rank(images, captions, judgements.i2t),
        _rank(captions, images, judgements.t2i),
    )


def _rank(asking: Tensor, asked: Tensor, direction: JudgedQueries) -> DirectionRanks:
    queries, gallery = (
        _taken(vectors, places) for vectors, places in ((asking, direction.queries), (asked, direction.gallery))
    )
    # Sums round: a wrong candidate within rounding of a right one is a tie, and ranks first.
    tolerance = ROUNDING * float(queries.norm(dim=1).max() * gallery.norm(dim=1).max())
    parts: list[tuple[Integers, ...]] = []
    for first in range(0, len(queries), QUERIES_AT_A_TIME):
        rows = slice(first, first + QUERIES_AT_A_TIME)
        parts.append(_rank_block(queries[rows] @ gallery.T, direction, first, tolerance))
    positions, annotated, condensed, known = (np.concatenate(part) for part in zip(*parts, strict=True))
    counts = np.bincount(direction.positives[0], minlength=len(queries)).astype(np.int32)
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


def _taken(vectors: Tensor, places: NDArray[np.int32]) -> Tensor:
    return vectors.detach()[torch.from_numpy(places.astype(np.int64)).to(vectors.device)].double()


def _mask(pairs: Pairs, scores: Tensor, first: int) -> Tensor:
    """Return which candidates belong to some pairs, bool, in the shape of the scores of queries from the first on."""
    low, high = np.searchsorted(pairs[0], [first, first + len(scores)])
    rows, columns = torch.from_numpy(pairs[:, low:high].astype(np.int64)).to(scores.device)
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask[rows - first, columns] = True
    return mask


def _positions(scores: Tensor, positives: Tensor, against: Tensor, tolerance: float) -> Integers:
    """Return the positions of positives among the candidates that stand against them, query after query."""
    counts = positives.sum(1)
    best = scores.masked_fill(~positives, -torch.inf).topk(int(counts.max())).values
    others = scores.masked_fill(~against, -torch.inf).sort(1).values
    harder = others.shape[1] - torch.searchsorted(others, best - tolerance)
    place = torch.arange(1, best.shape[1] + 1, device=scores.device)
    found: Integers = (harder + place)[place <= counts[:, None]].cpu().numpy().astype(np.int32)
    return found
