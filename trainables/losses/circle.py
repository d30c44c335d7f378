"""Circle loss, pairwise: each similarity is weighted by how far it is from its optimum.

    a_p = [1 + margin - s_p]+ ,   a_n = [s_n + margin]+         (constants to the gradient)
    l_q = log(1 + sum over negatives n of exp(scale a_n (s_n - margin))
                * sum over positives p of exp(-scale a_p (s_p - (1 - margin))))
    L   = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

A positive should reach 1 - margin and a negative fall to margin. A query without negatives has l_q = 0. The weights a_p
and a_n are constants to the gradient, as in the authors' code.

References:
    [Sun2020] Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization, section 3.
        arXiv:2002.10857
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import Parameter, per_score, require_above_zero, require_not_negative


@dataclass(frozen=True)
class Circle:
    """Circle loss with pairs for labels, in both directions [Sun2020]; any number of positives per query.

    Attributes:
        margin: Relaxation, >= 0, typical 0.25 to 0.4; a number or shape (...).
        scale: Sharpness (gamma), > 0, typical 32 to 256; a number or shape (...).

    Example:
        >>> import torch
        >>> round(float(Circle(margin=0.0, scale=1.0)(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool))), 4)
        1.3133
    """

    margin: Parameter = 0.4
    scale: Parameter = 80.0

    def __post_init__(self) -> None:
        require_not_negative("margin", self.margin)
        require_above_zero("scale", self.scale)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return (self._mean(i2t) + self._mean(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A pair's weight is a_p or a_n, times its share of its sum, times sigmoid of the logarithm of the product.

        Differentiate l_q at fixed a_p and a_n; the factor ``scale`` is left out. Without negatives all weights are 0.
        """
        pull, push = self._weights(direction)
        pulls, pushes = self._logits(direction)
        total = (pulls.logsumexp(-1) + pushes.logsumexp(-1)).sigmoid() * direction.negatives.any(-1)
        positive = total[..., None] * pulls.softmax(-1) * pull
        negative = (total[..., None] * pushes.softmax(-1) * push).masked_fill(~direction.negatives, 0.0)
        return Contributions(direction.rows(negative), direction.of_pairs(positive))

    def _mean(self, direction: Direction) -> Tensor:
        pulls, pushes = self._logits(direction)
        costs = -logsigmoid(-(pulls.logsumexp(-1) + pushes.logsumexp(-1)))
        return costs.masked_fill(~direction.negatives.any(-1), 0.0).mean(-1)

    def _logits(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return the exponents of positives and negatives, shape (..., Q, M), -inf for other pairs.

        The exponents of negatives are 0 in a row without negatives: a row of -inf alone would have a gradient of NaN.
        """
        margin, scale = (per_score(value, direction.scores) for value in (self.margin, self.scale))
        pull, push = self._weights(direction)
        pulls = (-scale * pull * (direction.scores - (1 - margin))).masked_fill(~direction.positives, -torch.inf)
        other = torch.where(direction.negatives.any(-1, keepdim=True), -torch.inf, 0.0).to(pulls.dtype)
        return pulls, torch.where(direction.negatives, scale * push * (direction.scores - margin), other)

    def _weights(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return a_p and a_n of each pair, shape (..., Q, M)."""
        scores, margin = direction.scores.detach(), per_score(self.margin, direction.scores)
        return (1 + margin - scores).relu(), (scores + margin).relu()
