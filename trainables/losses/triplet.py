"""Triplet losses with in-batch negatives: all, the k hardest, the hardest, or a selection for each query.

    L    = sum over queries q, positives p and negatives n of q:  [margin + s_qn - s_qp]+
    L_SH = sum over queries q and positives p of q:               [margin + max_n s_qn - s_qp]+

L can be limited to the k hardest negatives of each query (``directions.counted_negatives``); for k = 1 it is L_SH to
the last bit. Both losses are sums over both directions, never averaged: the gradient grows with the batch. Papers
sometimes call L_SH "semi-hard"; here the hardest negative may score above the positive. At cost 0 the gradient is 0.

A selective loss takes the hardest negative only where its gradient does not vanish (SelHN):

    l_qp = [margin + max_n s_qn - s_qp]+                            where |s_qp - max_n s_qn| >= epsilon
         = mean over negatives n of q:  [margin + s_qn - s_qp]+     where |s_qp - max_n s_qn| <  epsilon
    L    = sum over both directions, queries q and positives p of q:  l_qp

Early in training all embeddings are similar. Then the positive and the hardest negative are nearly equal vectors, their
gradients cancel in the encoders, and the model collapses or does not learn; the mean over all negatives avoids this.
The choice between the two formulas is a constant to the gradient. With epsilon 0, L is ``triplet_sh``.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        eq. 1 to 3. arXiv:2202.07474
    [Faghri2018] Faghri et al., VSE++, eq. 4 to 6. arXiv:1707.05612
    [Li2023] Li et al., Selectively Hard Negative Mining for Alleviating Gradient Vanishing in Image-Text Matching.
        arXiv:2303.00181
    [SelHNCode] https://github.com/AAA-Zheng/RVSEPP/blob/bb50965/loss.py: margin 0.2, epsilon 0.01. The code's value is
        L / (2 B) for a batch of B pairs, half the sum of the means of the two directions.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.losses.directions import Contributions, Direction, Negatives, TwoDirections, counted_negatives
from trainables.losses.parameters import Parameter, check_parameters, per_query, per_score


@dataclass(frozen=True)
class Triplet(TwoDirections):
    """Triplet loss over all negatives [Bleeker2022, eq. 1 and 2], or over the hardest of each query.

    Attributes:
        margin: In units of similarity, >= 0; a number or shape (...).
        negatives: ``all``, or the number of hardest negatives of a query that count, >= 1; a number or shape (...).

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.9, 0.8], [0.1, 0.4]])
        >>> round(float(Triplet(margin=0.2)(similarity, torch.eye(2, dtype=torch.bool))), 4)
        0.7
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["triplet"]
    margin: Parameter = parameters["margin"].default
    negatives: Negatives = parameters["negatives"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """A negative that counts and is within the margin of a positive has weight 1: dL/ds_n = 1[cost > 0]."""
        weights = (all_costs(self.margin, direction, self.negatives) > 0).to(direction.scores.dtype)
        return Contributions(weights, weights.sum(-1))

    def _part(self, direction: Direction) -> Tensor:
        costs = all_costs(self.margin, direction, self.negatives)
        if isinstance(self.negatives, str):
            return costs.sum((-2, -1))
        # A row with one cost sums to this cost exactly, and the sums of rows round like those of ``triplet_sh``.
        return costs.sum(-1).sum(-1)


@dataclass(frozen=True)
class TripletHardest(TwoDirections):
    """Triplet loss with the hardest negative of each query ("SH") [Faghri2018, eq. 6].

    A query without negatives has loss 0. Of equally hard negatives one gets the gradient.

    Attributes:
        margin: In units of similarity, >= 0; a number or shape (...).
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["triplet_sh"]
    margin: Parameter = parameters["margin"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """The hardest negative has weight 1 where it is within the margin of the positive."""
        weights = (hardest_costs(self.margin, direction) > 0).to(direction.scores.dtype)
        return Contributions(weights[..., None], weights)

    def _part(self, direction: Direction) -> Tensor:
        return hardest_costs(self.margin, direction).sum(-1)


def all_costs(margin: Parameter, direction: Direction, negatives: Negatives = "all") -> Tensor:
    """Return the cost of each pair and negative, shape (..., P, N); 0 where a candidate is no negative that counts."""
    scores, counted = counted_negatives(direction, negatives)
    # Added in the order of the published code, (margin + s_n) - s_p, so that a score on the margin rounds alike.
    costs = per_score(margin, direction.scores) + scores
    return (costs - direction.positive[..., None]).relu().masked_fill(~counted, 0.0)


def hardest_costs(margin: Parameter, direction: Direction) -> Tensor:
    """Return the cost of each pair and the hardest negative of its query, shape (..., P)."""
    hardest = direction.per_pair(direction.hardest_negative())
    return (per_query(margin, direction.scores) + hardest - direction.positive).relu()


@dataclass(frozen=True)
class TripletSelHN(TwoDirections):
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

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["triplet_selhn"]
    margin: Parameter = parameters["margin"].default
    epsilon: Parameter = parameters["epsilon"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

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

    def _part(self, direction: Direction) -> Tensor:
        mean = all_costs(self.margin, direction).sum(-1) / _count(direction)
        return torch.where(self._takes_mean(direction), mean, hardest_costs(self.margin, direction)).sum(-1)

    def _takes_mean(self, direction: Direction) -> Tensor:
        """Return whether the hardest negative is nearer than epsilon, shape (..., P), bool."""
        gap = direction.positive - direction.per_pair(direction.hardest_negative())
        return gap.detach().abs() < per_query(self.epsilon, direction.scores)


def _count(direction: Direction) -> Tensor:
    """Return how many negatives the query of each pair has, at least 1, shape (P,)."""
    return direction.per_pair(direction.negatives.sum(-1)).clamp(min=1).to(direction.scores.dtype)
