"""Triplet loss that takes the hardest negative only where its gradient does not vanish (SelHN).

    l_qp = [margin + max_n s_qn - s_qp]+                            where |s_qp - max_n s_qn| >= epsilon
         = mean over negatives n of q:  [margin + s_qn - s_qp]+     where |s_qp - max_n s_qn| <  epsilon
    L    = sum over both directions, queries q and positives p of q:  l_qp

Early in training all embeddings are similar. Then the positive and the hardest negative are nearly equal vectors, their
gradients cancel in the encoders, and the model collapses or does not learn; the mean over all negatives avoids this.
The choice between the two formulas is a constant to the gradient. With epsilon 0, L is ``triplet_sh``.

References:
    [Li2023] Li et al., Selectively Hard Negative Mining for Alleviating Gradient Vanishing in Image-Text Matching.
        arXiv:2303.00181
    [SelHNCode] https://github.com/AAA-Zheng/RVSEPP/blob/bb50965/loss.py: margin 0.2, epsilon 0.01. The code's value is
        L / (2 B) for a batch of B pairs, half the sum of the means of the two directions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import Parameter, per_query, require_not_negative
from trainables.losses.triplet import all_costs, hardest_costs


@dataclass(frozen=True)
class TripletSelHN:
    """Triplet loss with the hardest negative, or all negatives where the hardest is as close as the positive [Li2023].

    Attributes:
        margin: In units of similarity, >= 0; a number or shape (...).
        epsilon: Distance between hardest negative and positive, in units of similarity, below which the mean is taken,
            >= 0; a number or shape (...).

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.5, 0.5, 0.1], [0.1, 0.5, 0.1], [0.1, 0.1, 0.5]])
        >>> round(float(TripletSelHN(margin=0.2, epsilon=0.01)(similarity, torch.eye(3, dtype=torch.bool))), 4)
        0.2
    """

    margin: Parameter = 0.2
    epsilon: Parameter = 0.01

    def __post_init__(self) -> None:
        require_not_negative("margin", self.margin)
        require_not_negative("epsilon", self.epsilon)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return self._costs(i2t).sum(-1) + self._costs(t2i).sum(-1)

    def contributions(self, direction: Direction) -> Contributions:
        """With the mean over M negatives, each negative within the margin has weight 1/M; else the hardest has 1."""
        violating = (all_costs(self.margin, direction) > 0).to(direction.scores.dtype)
        hardest = direction.scores.masked_fill(~direction.negatives, -torch.inf).argmax(-1, keepdim=True)
        is_hardest = torch.zeros_like(direction.scores).scatter(-1, hardest, 1.0)
        shares = torch.where(
            self._takes_mean(direction)[..., None], 1 / _count(direction)[:, None], direction.rows(is_hardest)
        )
        weights = violating * shares
        return Contributions(weights, weights.sum(-1))

    def _costs(self, direction: Direction) -> Tensor:
        """Return the cost of each pair, shape (..., P)."""
        mean = all_costs(self.margin, direction).sum(-1) / _count(direction)
        return torch.where(self._takes_mean(direction), mean, hardest_costs(self.margin, direction))

    def _takes_mean(self, direction: Direction) -> Tensor:
        """Return whether the hardest negative is nearer than epsilon, shape (..., P), bool."""
        gap = direction.positive - direction.per_pair(direction.hardest_negative())
        return gap.detach().abs() < per_query(self.epsilon, direction.scores)


def _count(direction: Direction) -> Tensor:
    """Return how many negatives the query of each pair has, at least 1, shape (P,)."""
    return direction.per_pair(direction.negatives.sum(-1)).clamp(min=1).to(direction.scores.dtype)
