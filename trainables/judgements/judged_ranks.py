"""Where a model puts the candidates that fit, for the queries that people judged.

The position of the r-th best positive of a query is r + the number of candidates that do not fit and score at or above
it: ties rank against the query. Three lists are looked at:

    all candidates, those that nobody judged counted as wrong          ``positions``
    judged candidates alone, those that nobody judged taken out        ``condensed``   [Sakai2007]
    all candidates, annotated pairs alone counted as right             ``annotated``

The first is too low where a candidate fits and nobody judged it, the second is too high where judges were shown what
other systems found: what a model ranks high and nobody judged is more often wrong than what was judged.

References:
    [Sakai2007] Sakai, Alternatives to Bpref, SIGIR 2007: condensed lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.errors import DataError
from trainables.judgements.judgements import Integers, JudgedQueries, Judgements, Pairs
from trainables.packed_integers import pack_integers, unpack_integers
from trainables.positive_ranks import ROUNDING

TOP = 10
"""Of so many first candidates it is counted how many are judged."""

QUERIES_AT_A_TIME = 256
"""Bounds memory, changes no number."""


@dataclass(frozen=True, eq=False)
class DirectionRanks:
    """One direction of retrieval, of Q queries with P positives in all.

    Attributes:
        owners: The image that each query is or belongs to, shape (Q,), int32.
        counts: How many positives each query has, shape (Q,), int32, from 1.
        positions: Of each query's positives among all candidates, the best first, query after query, shape (P,), int32,
            from 1.
        annotated: Rank of each query's best annotated candidate among all others, shape (Q,), int32, from 1.
        condensed: As ``positions`` among the judged candidates alone; empty where only pairs that fit are known.
        known: How many of the first ten candidates of each query are judged or annotated, shape (Q,), int32; empty
            where only pairs that fit are known.
    """

    owners: Integers
    counts: Integers
    positions: Integers
    annotated: Integers
    condensed: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    known: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class JudgedRanks:
    """Both directions.

    Attributes:
        name: Of the judgements.
        digest: Of the judgements: ranks with equal digests can be compared.
        i2t: Images that query captions.
        t2i: Captions that query images.
    """

    name: str
    digest: str
    i2t: DirectionRanks
    t2i: DirectionRanks

    def to_text(self) -> dict[str, Any]:
        """Return plain values for JSON, from which ``from_text`` makes the ranks again."""
        arrays = [getattr(one, part) for one in (self.i2t, self.t2i) for part in _PARTS]
        lengths = [len(array) for array in arrays]
        return {
            "name": self.name,
            "digest": self.digest,
            "lengths": lengths,
            "packed": pack_integers(np.concatenate(arrays)),
        }

    @classmethod
    def from_text(cls, text: Mapping[str, Any]) -> "JudgedRanks":
        """Return the ranks that ``to_text`` wrote.

        Raises:
            DataError: If the text is damaged.
        """
        try:
            lengths = [int(length) for length in text["lengths"]]
            name, digest, packed = str(text["name"]), str(text["digest"]), text["packed"]
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"kept ranks of judged pairs are damaged: {error}") from None
        arrays = np.split(unpack_integers(packed, (sum(lengths),)), np.cumsum(lengths)[:-1])
        if len(arrays) != 2 * len(_PARTS):
            raise DataError(f"kept ranks of judged pairs are damaged: {len(arrays)} arrays")
        return cls(name, digest, DirectionRanks(*arrays[: len(_PARTS)]), DirectionRanks(*arrays[len(_PARTS) :]))


_PARTS = ("owners", "counts", "positions", "annotated", "condensed", "known")


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
