"""A batch as two retrieval tasks: images query captions (i2t), captions query images (t2i).

Every loss sums one formula over the two directions, so a loss defines its formula once, for queries in rows and
candidates in columns. This module transposes the batch, checks the batch, and lists its (query, positive) pairs.

Shapes and dtypes are always checked. In eager mode, ``similarity`` is checked for NaN on the CPU, and the values of
``positives`` are checked once per tensor. The result is kept until the tensor changes, so that a training loop on an
accelerator waits for the device once, not in every step. On an accelerator, a NaN similarity makes the loss NaN. Inside
``torch.compile`` no value can be read. There the longer side's items must have one positive each, as captions have in
every batch of image-caption pairs; otherwise the loss is NaN.

A caption without a positive, such as a label that no image of the batch has, is a candidate of the images and no query.

A loss may count the k hardest negatives of a query, or all. Between the loss over all negatives and the loss with the
hardest negative [Faghri2018] lie losses with "only one, or a limited number of, hard negative(s)". [Bleeker2022,
section 6] leaves these to others. A query with fewer than k negatives counts all of them. Of equally hard negatives at
the k-th place the first candidates are chosen, so that exactly k count. The choice is a constant to the gradient.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
    [Faghri2018] Faghri et al., VSE++, eq. 6. arXiv:1707.05612
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from trainables.positive_ranks import require_positives


class NotANumberError(ValueError):
    """A similarity is NaN, so the model has diverged."""


class Direction(NamedTuple):
    """One retrieval task: Q queries, M candidates, P pairs of a query and one of its positives.

    Attributes:
        name: ``i2t`` or ``t2i``.
        scores: Similarities of queries to candidates, shape (..., Q, M), float32 or float64.
        positives: Shape (Q, M), bool.
        negatives: Shape (Q, M), bool: neither positive nor ignored.
        ignored: Shape (Q, M), bool: neither positive nor negative; ``None`` where no pair is ignored.
        query: The query of each pair, shape (P,), int64.
        candidate: The positive of each pair, shape (P,), int64.
        positive: The similarity of each pair, shape (..., P).
        pairs_are_queries: Whether pair p is query p with its only positive.
    """

    name: str
    scores: Tensor
    positives: Tensor
    negatives: Tensor
    ignored: Tensor | None
    query: Tensor
    candidate: Tensor
    positive: Tensor
    pairs_are_queries: bool

    def rows(self, matrix: Tensor) -> Tensor:
        """Return the row of each pair's query, shape (..., P, M), of a matrix of shape (..., Q, M)."""
        return matrix if self.pairs_are_queries else matrix.index_select(-2, self.query)

    def per_pair(self, values: Tensor) -> Tensor:
        """Return the value of each pair's query, shape (..., P), of values of shape (..., Q)."""
        return values if self.pairs_are_queries else values.index_select(-1, self.query)

    def of_pairs(self, matrix: Tensor) -> Tensor:
        """Return each pair's entry, shape (..., P), of a matrix of shape (..., Q, M)."""
        return matrix.flatten(-2).index_select(-1, self.query * matrix.shape[-1] + self.candidate)

    def sum_per_query(self, values: Tensor) -> Tensor:
        """Return the sum over each query's positives, shape (..., Q), of values of pairs, shape (..., P)."""
        if self.pairs_are_queries:
            return values
        return values.new_zeros(*values.shape[:-1], self.scores.shape[-2]).index_add(-1, self.query, values)

    def hardest_negative(self) -> Tensor:
        """Return the highest negative similarity of each query, shape (..., Q); -inf for a query without negatives."""
        return self.scores.masked_fill(~self.negatives, -torch.inf).max(dim=-1).values

    def of_negatives(self, logits: Tensor) -> Tensor:
        """Return the logits, (..., Q, M), of negatives, and -inf of other pairs; 0 in a row without negatives."""
        # The gradient of a row of -inf alone would be NaN, even if the row is masked afterwards.
        other = torch.where(self.negatives.any(-1, keepdim=True), -torch.inf, 0.0).to(logits.dtype)
        return torch.where(self.negatives, logits, other)

    def share_of_pair(self) -> Tensor:
        """Return 1/k for each pair of a query with k positives, shape (P,), in the dtype of ``scores``."""
        return 1 / self.per_pair(self.positives.sum(-1)).to(self.scores.dtype)


class ConstantCandidates(NamedTuple):
    """Candidates without gradient of the queries of one direction: those of the batch, then those of a bank.

    Attributes:
        scores: Similarities of queries to them, shape (..., Q, M + B); their gradient goes to the queries alone.
        negatives: Which of the bank's are negatives of a query, shape (Q, B), bool; the others are ignored.
    """

    scores: Tensor
    negatives: Tensor

    def instead(self, direction: Direction) -> Direction:
        """Return a direction with these candidates in the place of its own."""
        outside = torch.zeros_like(self.negatives)
        ignored = torch.zeros_like(direction.positives) if direction.ignored is None else direction.ignored
        scores = self.scores.to(direction.scores.dtype)
        return direction._replace(
            scores=scores,
            positives=torch.cat([direction.positives, outside], -1),
            negatives=torch.cat([direction.negatives, self.negatives], -1),
            ignored=torch.cat([ignored, ~self.negatives], -1),
            positive=direction.of_pairs(scores),
        )


Candidates = tuple[ConstantCandidates, ConstantCandidates]
"""The candidates of the images, and of the captions, of a batch."""


def directions(
    similarity: Tensor, positives: Tensor, ignore: Tensor | None = None, candidates: Candidates | None = None
) -> tuple[Direction, Direction]:
    """Check a batch and return its two retrieval tasks, i2t and t2i, the latter of the captions with a positive alone.

    Args:
        similarity: Shape (..., I, C), floating, larger is closer; leading dimensions are independent trials. Half
            precision is computed in float32.
        positives: Shape (I, C), bool; every row has at least one True.
        ignore: Shape (I, C), bool: pairs that are neither positive nor negative. A positive is never ignored.
        candidates: Candidates of the images, and of the captions, that take the place of those of the batch.

    Raises:
        ValueError: If a shape or dtype is wrong, a row has no positive, or a similarity is NaN; see the module's
            docstring about checks of values.
    """
    _check_shapes(similarity, positives, ignore)
    scores = similarity if similarity.dtype == torch.float64 else similarity.float()
    one_each, queries = True, None
    if torch.compiler.is_compiling():
        scores = scores + torch.where(_one_positive_each(positives), 0.0, torch.nan)
    else:
        one_each, queries = _check_positives(positives)
        _check_numbers(similarity)
    ignored = None if ignore is None else ignore & ~positives
    i2t = _direction("i2t", scores, positives, ignored, one_each)
    of_captions, matching = _some(scores.mT, queries), _some(positives.mT, queries)
    t2i = _direction("t2i", of_captions, matching, None if ignored is None else _some(ignored.mT, queries), one_each)
    if candidates is None:
        return i2t, t2i
    of_images = ConstantCandidates(*(_some(part, queries) for part in candidates[1]))
    return candidates[0].instead(i2t), of_images.instead(t2i)


def _some(matrix: Tensor, queries: Tensor | None) -> Tensor:
    """Return the rows of some queries, of a matrix (..., Q, M); all rows for ``None``."""
    return matrix if queries is None else matrix.index_select(-2, queries)


class TwoDirections(ABC):
    """A loss that is the sum of one formula over the two directions."""

    def __call__(
        self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None, candidates: Candidates | None = None
    ) -> Tensor:
        """Return the loss, shape (...); arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore, candidates)
        return self._part(i2t) + self._part(t2i)

    @abstractmethod
    def _part(self, direction: Direction) -> Tensor:
        """Return one direction's part of the loss, shape (...)."""


def _direction(name: str, scores: Tensor, positives: Tensor, ignored: Tensor | None, one_each: bool) -> Direction:
    query, candidate = _pairs(positives, one_each)
    queries, candidates = positives.shape
    # Pairs come in the order of queries and each query has a pair, so P = Q means one positive for each query.
    pairs_are_queries = len(query) == queries
    # A transposed matrix is indexed in its memory layout, because flattening the transpose would copy the matrix.
    if scores.is_contiguous():
        flat, index = scores.flatten(-2), query * candidates + candidate
    else:
        flat, index = scores.mT.flatten(-2), candidate * queries + query
    negatives = ~positives if ignored is None else ~(positives | ignored)
    positive = flat.index_select(-1, index)
    return Direction(name, scores, positives, negatives, ignored, query, candidate, positive, pairs_are_queries)


def _pairs(positives: Tensor, one_each: bool) -> tuple[Tensor, Tensor]:
    """Return query and candidate of each positive; reads no values if the longer side has one positive each."""
    queries, candidates = positives.shape
    if not one_each:
        query, candidate = positives.nonzero(as_tuple=True)
        return query, candidate
    if queries >= candidates:
        return torch.arange(queries, device=positives.device), positives.int().argmax(1)
    return positives.int().argmax(0), torch.arange(candidates, device=positives.device)


def _one_positive_each(positives: Tensor) -> Tensor:
    """Return a bool scalar: the longer side's items have one positive each, the shorter side's one or more."""
    images, captions = positives.shape
    longer, shorter = (1, 0) if images >= captions else (0, 1)
    return (positives.sum(longer) == 1).all() & positives.any(shorter).all()


def _check_shapes(similarity: Tensor, positives: Tensor, ignore: Tensor | None) -> None:
    if similarity.dim() < 2 or not similarity.is_floating_point():
        raise ValueError(
            f"similarity must be a floating tensor of shape (..., images, captions), "
            f"got {similarity.dtype} of shape {tuple(similarity.shape)}"
        )
    for name, mask in (("positives", positives), ("ignore", ignore)):
        if mask is not None and (mask.shape != similarity.shape[-2:] or mask.dtype != torch.bool):
            raise ValueError(
                f"{name} must be bool of shape {tuple(similarity.shape[-2:])}, as the last two dimensions of "
                f"similarity, got {mask.dtype} of shape {tuple(mask.shape)}"
            )


def _check_numbers(similarity: Tensor) -> None:
    scores = similarity.detach()
    # Checking the sum is ten times as fast as checking each number. Infinities of both signs also sum to NaN.
    if scores.device.type == "cpu" and bool(scores.sum().isnan()) and bool(scores.isnan().any()):
        count = int(scores.isnan().sum())
        raise NotANumberError(f"similarity must hold no NaN, got {count} of {similarity.numel()}")


_verdicts: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""positives -> version, and what ``_check_positives`` returns; an entry ends with its tensor."""


def _check_positives(positives: Tensor) -> tuple[bool, Tensor | None]:
    """Check that every row has a positive; return whether the longer side's items have one each, and t2i's queries.

    The queries are the columns with a positive, int64; ``None`` where all columns have one.
    """
    # Tensors of inference mode have no version counter, so their result cannot be kept.
    version = None if positives.is_inference() else positives._version
    known = _verdicts.get(positives)
    if known is not None and known[0] == version:
        return bool(known[1]), known[2]
    one_each, queries = bool(_one_positive_each(positives)), None
    if not one_each:
        require_positives(positives, of_captions=False)
        asked = positives.any(0).nonzero().flatten()
        queries = asked if len(asked) < positives.shape[1] else None
    if version is not None:
        _verdicts[positives] = (version, one_each, queries)
    return one_each, queries


class Contributions(NamedTuple):
    """Weights in the gradient of one query's term of a loss, for P pairs of a query and one of its positives.

    The term l_q of a query q is the sum of the terms l_qp of its pairs, or their mean for NT-Xent and SmoothAP. The
    weights leave out the factors that all queries share: the reduction over queries, and 1/temperature.

    Attributes:
        candidates: |dl_qp / ds| of each candidate that can contribute, shape (..., P, N): N is the number of
            candidates, or 1 for losses that take one negative per query. Other candidates have weight 0.
        positive: |dl_q / ds| of the pair's positive, shape (..., P).
        criterion: Number that must exceed epsilon for a candidate to be counted, in the shape of ``candidates``;
            ``None`` where the weights in ``candidates`` themselves must exceed epsilon.
    """

    candidates: Tensor
    positive: Tensor
    criterion: Tensor | None = None

    def counted(self, epsilon: float) -> Tensor:
        """Return which candidates are counted, bool in the shape of ``candidates``."""
        return (self.candidates if self.criterion is None else self.criterion) > epsilon


ALL = "all"

Negatives = int | Tensor | Literal["all"]
"""Number of hardest negatives of a query that count, >= 1; a tensor of shape (...), one a trial; or all of them."""


def with_hardest(direction: Direction, count: Negatives) -> Direction:
    """Return a direction in which only the ``count`` hardest negatives of each query are negatives.

    With a tensor of counts, the negatives have the shape (..., Q, M).
    """
    if isinstance(count, str):
        return direction
    candidates = direction.scores.shape[-1]
    most = _largest(count)
    if most >= candidates and not isinstance(count, Tensor):
        return direction
    scores = direction.scores.detach().masked_fill(~direction.negatives, -torch.inf)
    best = scores.topk(min(most, candidates), -1).values
    if isinstance(count, Tensor):
        leading = torch.broadcast_shapes(count.shape, best.shape[:-2])
        count = count.to(torch.int64).clamp(max=candidates)[..., None, None]
        index = (count - 1).expand(*leading, best.shape[-2], 1)
        lowest = best.expand(*leading, *best.shape[-2:]).gather(-1, index)
    else:
        lowest = best[..., -1:]
    # "not at or below" rather than "above": a pair with NaN must be kept, so that the loss is NaN.
    above, ties = ~(scores <= lowest), scores == lowest
    room = count - above.sum(-1, keepdim=True)
    chosen = above | (ties & (ties.cumsum(-1, dtype=torch.int32) <= room))
    return direction._replace(negatives=chosen & direction.negatives)


def counted_negatives(direction: Direction, count: Negatives) -> tuple[Tensor, Tensor]:
    """Return similarities of each pair's query, shape (..., P, N), and which of these are negatives that count, bool.

    N is the number of candidates, or 1 where only the hardest negative counts.
    """
    if isinstance(count, str) or _largest(count) > 1:
        chosen = with_hardest(direction, count)
        return chosen.rows(chosen.scores), chosen.rows(chosen.negatives)
    there = direction.per_pair(direction.negatives.any(-1))
    # The -inf of a query without negatives would make powers, and values of weight 0, NaN.
    hardest = torch.where(there, direction.per_pair(direction.hardest_negative()), 0.0)
    return hardest[..., None], there[..., None]


_LARGEST: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Counts of stacked trials -> the largest; an entry ends with its tensor, and a device is read once a tensor."""


def _largest(count: int | Tensor) -> int:
    """Return the largest count; a tensor of hyper-parameters never changes."""
    if not isinstance(count, Tensor):
        # A whole number may be written as 5.0, which ``topk`` does not take.
        return int(count)
    if count not in _LARGEST:
        _LARGEST[count] = int(count.max())
    return int(_LARGEST[count])
