"""Triplets whose pairs are weighed by a network of their similarities, which is learned by a meta-step.

With s_p a positive of a query, N the negatives that count (the k hardest, or all), N_b the positive pairs of the batch:

    (w+, w-) = sigmoid(W2 relu(W1 (s_p, s_n) + b1) + b2)                  (constants to the gradient of the model)
    l_pn = w- (s_n + margin/2) - w+ (s_p - margin/2)     where margin + s_n - s_p > 0, else 0
    L    = (1/N_b) sum over both directions, queries, positives p and negatives n in N:   l_pn

so that the gradient by s_n is w- / N_b and that by s_p is -w+ / N_b. The network sees the similarities of both pairs,
and so their difference, as in [Wei2021Meta]. Its form, one hidden layer, and its step are those of [Shu2019]; W2 and b2
begin at 0. Then, and where a loss has no network, all weights are 1/2 and L is ``triplet`` / (2 N_b). The step, see
``trainables.meta_step``, asks the unweighted ``plain`` triplet loss of a part of train that is not trained on.

References:
    [Shu2019] Shu et al., Meta-Weight-Net: Learning an Explicit Mapping For Sample Weighting, eq. 3 to 5 and section 4.
        arXiv:1902.07379
    [Wei2021Meta] Wei et al., Meta Self-Paced Learning for Cross-Modal Matching. ACM MM 2021,
        doi:10.1145/3474085.3475451
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.losses.directions import Contributions, Direction, Negatives, TwoDirections, counted_negatives
from trainables.losses.parameters import Parameter, check_parameters, per_score, with_values
from trainables.losses.triplet import Triplet

L = TypeVar("L")

NETWORK = "network"
"""Key of the best network's state in a checkpoint, and name of a loss's network."""

GRID = (0.25, 0.5, 0.75)
"""Similarities of negatives at which the weights beside a positive of 0.5 are reported."""


class WeightNetwork(nn.Module):
    """Maps the similarities of a positive and of a negative to their weights, both in [0, 1]."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(2, hidden_size), nn.Linear(hidden_size, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Return w+ and w- of similarities (...), in their dtype, or float64 where the network is."""
        both = torch.stack(torch.broadcast_tensors(positive, negative), -1).to(self.out.weight.dtype)
        weights = self.out(self.hidden(both).relu()).sigmoid()
        return weights[..., 0], weights[..., 1]

    @torch.no_grad()
    def constant(self, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same weights, which take no gradient."""
        return self(positive, negative)

    def values(self) -> dict[str, float]:
        """Return the weights of a positive of similarity 0.5 and of negatives of ``GRID``, by names of metrics."""
        device = self.out.weight.device
        weights = self.constant(torch.full((len(GRID),), 0.5, device=device), torch.tensor(GRID, device=device))
        return {
            f"{name}_{round(100 * at):02d}": value
            for name, values in zip(("positive_weight", "negative_weight"), weights, strict=True)
            for at, value in zip(GRID, values.tolist(), strict=True)
        }


def _half(positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.full_like(torch.broadcast_tensors(positive, negative)[0], 0.5)
    return weights, weights


@dataclass(frozen=True)
class MetaWeights(TwoDirections):
    """Triplet loss with learned weights of pairs [Wei2021Meta].

    Attributes:
        margin: In units of similarity, >= 0; a number or shape (...).
        negatives: ``all``, or the number of hardest negatives of a query that count, >= 1; a number or shape (...).
        hidden_size: Units of the network's hidden layer, >= 1.
        meta_learning_rate: Adam's step size for the network, >= 0.
        meta_fraction: Share of the train images that the meta-step reads and that are not trained on, in (0, 0.5].
        network: Returns w+ and w- of similarities.

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.9, 0.8], [0.1, 0.4]])
        >>> round(float(MetaWeights(margin=0.2)(similarity, torch.eye(2, dtype=torch.bool))), 4)
        0.175
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["meta_weights"]
    network: ClassVar[Any] = staticmethod(_half)
    margin: Parameter = parameters["margin"].default
    negatives: Negatives = parameters["negatives"].default
    hidden_size: Parameter = parameters["hidden_size"].default
    meta_learning_rate: Parameter = parameters["meta_learning_rate"].default
    meta_fraction: Parameter = parameters["meta_fraction"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """A negative that counts and is within the margin of a positive has w-, and the positive w+ beside it."""
        _, violating, positive, negative = self._weighed(direction)
        return Contributions(negative * violating, (positive * violating).sum(-1))

    @property
    def plain(self) -> Triplet:
        """The loss without weights."""
        return Triplet(self.margin, self.negatives)

    def _part(self, direction: Direction) -> Tensor:
        scores, violating, positive, negative = self._weighed(direction)
        half = per_score(self.margin, scores) / 2
        terms = negative * (scores + half) - positive * (direction.positive[..., None] - half)
        return terms.masked_fill(~violating, 0.0).sum((-2, -1)) / len(direction.query)

    def _weighed(self, direction: Direction) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return similarities of negatives, (..., P, N), which are within the margin, bool, and w+ and w-."""
        scores, counted = counted_negatives(direction, self.negatives)
        own = direction.positive[..., None]
        # "not at or below" rather than "above": a pair with NaN must be kept, so that the loss is NaN.
        violating = ~(per_score(self.margin, scores) + scores - own <= 0) & counted
        positive, negative = self.network(own.detach(), scores.detach())
        return scores, violating, positive.to(scores.dtype), negative.to(scores.dtype)


def with_network(loss: L, state: Mapping[str, Tensor]) -> L:
    """Return a loss with the network of a state, or unchanged where the state is empty."""
    if not state:
        return loss
    network = WeightNetwork(len(state["hidden.bias"]))
    network.load_state_dict(state)
    return with_values(loss, {NETWORK: network.to(state["hidden.bias"].device).constant})
