"""Multi-Similarity loss: pairs are mined by comparison with their query's hardest pair, then weighted softly.

    P_q = positives of q with  s - epsilon < max over negatives of q      (all positives without epsilon)
    N_q = negatives of q with  s + epsilon > min over positives of q
    l_q = 1/alpha log(1 + sum over P_q of exp(-alpha (s - base)))
        + 1/beta  log(1 + sum over N_q of exp( beta (s - base)))
    L   = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

A query keeps a positive exactly if it keeps a negative. The published loss is defined within one modality; here queries
and candidates are of different modalities. The choice of pairs is a constant to the gradient.

References:
    [Wang2019] Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, section 4.
        arXiv:1904.06627
    [MSCode] https://github.com/msight-tech/research-ms-loss: alpha 2, beta 40, base 0.5, epsilon 0.1
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import (
    Parameter,
    per_query,
    per_score,
    require_above_zero,
    require_finite_number,
    require_not_negative,
)


@dataclass(frozen=True)
class MultiSimilarity:
    """Multi-Similarity loss, in both directions [Wang2019]; any number of positives per query.

    Attributes:
        alpha: Sharpness on the positives, > 0; a number or shape (...).
        beta: Sharpness on the negatives, > 0; a number or shape (...).
        base: Similarity above which a negative, and below which a positive, weighs much; a number or shape (...).
        epsilon: Margin of the mining, >= 0; a number or shape (...); ``None`` keeps all pairs.

    Example:
        >>> import torch
        >>> loss = MultiSimilarity(alpha=1.0, beta=1.0, base=0.0, epsilon=None)
        >>> round(float(loss(torch.eye(2), torch.eye(2, dtype=torch.bool))), 4)
        1.0064
    """

    alpha: Parameter = 2.0
    beta: Parameter = 40.0
    base: Parameter = 0.5
    epsilon: Parameter | None = 0.1

    def __post_init__(self) -> None:
        require_above_zero("alpha", self.alpha)
        require_above_zero("beta", self.beta)
        require_finite_number("base", self.base)
        if self.epsilon is not None:
            require_not_negative("epsilon", self.epsilon)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return (self._mean(i2t) + self._mean(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """Weights of mined pairs: exp(beta (s - base)) and exp(-alpha (s - base)) over 1 + their sum."""
        pull, push = (
            (exponents - _log_one_plus_sum(exponents)[..., None]).exp() for exponents in self._exponents(direction)
        )
        return Contributions(direction.rows(push), direction.of_pairs(pull))

    def _mean(self, direction: Direction) -> Tensor:
        pull, push = (_log_one_plus_sum(exponents) for exponents in self._exponents(direction))
        alpha, beta = (per_query(value, direction.scores) for value in (self.alpha, self.beta))
        return (pull / alpha + push / beta).mean(-1)

    def _exponents(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return the exponents of positives and negatives, shape (..., Q, M); -inf for pairs that are not mined."""
        above = direction.scores - per_score(self.base, direction.scores)
        positives, negatives = self._mined(direction)
        pull = (-per_score(self.alpha, above) * above).masked_fill(~positives, -torch.inf)
        push = (per_score(self.beta, above) * above).masked_fill(~negatives, -torch.inf)
        return pull, push

    def _mined(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return which positives and which negatives are kept, shape (..., Q, M)."""
        if self.epsilon is None:
            return direction.positives, direction.negatives
        scores, epsilon = direction.scores, per_score(self.epsilon, direction.scores)
        hardest = direction.hardest_negative()[..., None]
        lowest = scores.masked_fill(~direction.positives, torch.inf).amin(-1, keepdim=True)
        # "not above" rather than "below": a pair with NaN must be kept, so that the loss is NaN.
        return direction.positives & ~(scores - epsilon >= hardest), direction.negatives & ~(scores + epsilon <= lowest)


def _log_one_plus_sum(exponents: Tensor) -> Tensor:
    """Return log(1 + sum of exp) over the last dimension."""
    # The 1 is written as exp(0), so that the gradient of a row of -inf alone is 0 and not NaN.
    return torch.cat([torch.zeros_like(exponents[..., :1]), exponents], -1).logsumexp(-1)
