"""Decoupled contrastive loss (DCL): NT-Xent without the positives in the denominator.

    l_q = mean over positives p of q of  ( -s_qp / t + log sum over negatives n of q of exp(s_qn / t) )
    L   = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

NT-Xent's gradient has the factor 1 - p, with p the positive's probability. The factor goes to 0 as p goes to 1, and the
earlier, the smaller the batch. Without the positive in the denominator the gradient has no such factor: the positive
always has weight 1. L has no lower bound. A query without negatives has l_q = 0.

References:
    [Yeh2022] Yeh et al., Decoupled Contrastive Learning, section 3. arXiv:2110.06848
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import Parameter, per_query, per_score, require_above_zero


@dataclass(frozen=True)
class Decoupled:
    """Decoupled contrastive loss between images and captions [Yeh2022], with no terms inside a modality.

    Attributes:
        temperature: Divides the similarities, > 0, typical 0.05 to 0.5; a number or shape (...).

    Example:
        >>> import torch
        >>> float(Decoupled(temperature=1.0)(torch.eye(2), torch.eye(2, dtype=torch.bool)))
        -1.0
    """

    temperature: Parameter = 0.1

    def __post_init__(self) -> None:
        require_above_zero("temperature", self.temperature)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...); arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return (self._mean(i2t) + self._mean(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is its probability among the negatives, a positive's 1/k, k the positives of its query.

        Differentiate l_q; the factor 1/t is left out. Without negatives all weights are 0.
        """
        kept = direction.negatives.any(-1)
        probabilities = self._logits(direction).softmax(-1).masked_fill(~direction.negatives, 0.0)
        pulls = direction.share_of_pair() * direction.per_pair(kept)
        return Contributions(direction.rows(probabilities), pulls.expand(*probabilities.shape[:-2], -1))

    def _mean(self, direction: Direction) -> Tensor:
        scaled = direction.positive / per_query(self.temperature, direction.scores)
        costs = direction.per_pair(self._logits(direction).logsumexp(-1)) - scaled
        costs = costs.masked_fill(~direction.per_pair(direction.negatives.any(-1)), 0.0)
        return (costs * direction.share_of_pair()).sum(-1) / direction.scores.shape[-2]

    def _logits(self, direction: Direction) -> Tensor:
        """Return s/t of negatives and -inf of other pairs, shape (..., Q, M); 0 in a row without negatives."""
        logits = direction.scores / per_score(self.temperature, direction.scores)
        # The gradient of a row of -inf alone would be NaN, even if the row is masked afterwards.
        other = torch.where(direction.negatives.any(-1, keepdim=True), -torch.inf, 0.0).to(logits.dtype)
        return torch.where(direction.negatives, logits, other)
