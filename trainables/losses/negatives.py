"""Which negatives of a query count in a loss: the k hardest of the batch, or all.

Between the loss over all negatives and the loss with the hardest one [Faghri2018] lie losses with "only one, or a
limited number of, hard negative(s)", which [Bleeker2022, section 6] leaves to others. A query with fewer than k
negatives counts all of them. Of equally hard negatives at the k-th place the first candidates are chosen, so that
exactly k count. The choice is a constant to the gradient.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
    [Faghri2018] Faghri et al., VSE++, eq. 6. arXiv:1707.05612
"""

from typing import Literal

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from trainables.errors import ConfigError
from trainables.losses.directions import Direction
from trainables.losses.parameters import numbers_of

ALL = "all"

Negatives = int | Tensor | Literal["all"]
"""Number of hardest negatives of a query that count, >= 1; a tensor of shape (...), one a trial; or all of them."""


def require_negatives(name: str, value: object, *, words: tuple[str, ...] = (ALL,)) -> None:
    """Raise ConfigError unless a value is one of some words, or every number of it is whole and at least 1."""
    if isinstance(value, str) and value in words:
        return
    is_count = not isinstance(value, str) and all(
        number >= 1 and number.is_integer() for number in numbers_of(name, value)
    )
    if not is_count:
        listed = f", or {' or '.join(map(repr, words))}" if words else ""
        raise ConfigError(f"{name} must be a whole number of at least 1{listed}, got {value!r}")


def with_hardest(direction: Direction, count: Negatives) -> Direction:
    """Return a direction in which only the ``count`` hardest negatives of each query are negatives.

    Args:
        direction: A retrieval task.
        count: See ``Negatives``. With a tensor, the negatives have the shape (..., Q, M).
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
        return count
    if count not in _LARGEST:
        _LARGEST[count] = int(count.max())
    return int(_LARGEST[count])
