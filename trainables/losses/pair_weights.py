"""Losses that weigh each pair by its own similarity: circle, Multi-Similarity, and weights in place of a loss.

Circle loss, pairwise: each similarity is weighted by how far it is from its optimum.

    a_p = [1 + margin - s_p]+ ,   a_n = [s_n + margin]+         (constants to the gradient)
    l_q = log(1 + sum over negatives n of exp(scale a_n (s_n - margin))
                * sum over positives p of exp(-scale a_p (s_p - (1 - margin))))
    L   = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

A positive should reach 1 - margin and a negative fall to margin. A query without negatives has l_q = 0. The weights a_p
and a_n are constants to the gradient, as in the authors' code.

Multi-Similarity loss: pairs are mined by comparison with their query's hardest pair, then weighted softly.

    P_q = positives of q with  s - epsilon < max over negatives of q      (all positives without epsilon)
    N_q = negatives of q with  s + epsilon > min over positives of q
    l_q = 1/alpha log(1 + sum over P_q of exp(-alpha (s - base)))
        + 1/beta  log(1 + sum over N_q of exp( beta (s - base)))
    L   = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

A query keeps a positive exactly if it keeps a negative. The published loss is defined within one modality; here queries
and candidates are of different modalities. The choice of pairs is a constant to the gradient.

A loss that is defined by its gradient: by the weight of each triplet and of each pair.

With s_p a positive of a query q, N the negatives that count (the k hardest, or all), D_n = s_n - s_p:

    the gradient by s_n is    scale T_n P-(s_n)
    the gradient by s_p is   -scale P+(s_p) * sum over n in N of T_n

    T, triplet_weight   constant   1[margin + D_n > 0]
                        linear     1[margin + D_n > 0] [1 + slope (margin + D_n)]+
                        softmax    exp(D_n / t) / (1 + sum over m in N of exp(D_m / t))
                        circle     sigmoid((s_n^2 - s_p (2 - s_p) + 1/2) / t)
    P, pair_weight      constant   P+ = 1,                          P- = balance
                        linear     P+ = [1 - positive_tilt s_p]+,   P- = balance [1 - negative_tilt (1 - s_n)]+
                        sigmoid    P+ = sigmoid(-alpha (s_p - base)),   P- = balance sigmoid(beta (s_n - base))

Most of these gradients are the gradient of no function, so the loss's value is the value of the linear function with
this gradient: ``scale (sum over n of T_n P- s_n - P+ s_p sum over n of T_n)`` with the weights as constants. The value
has no lower bound, and values of different settings cannot be compared.

Where each query has one positive, the family contains losses with the gradients of ``triplet_sh`` (hardest, constant,
constant), ``triplet`` (all, constant, constant), ``nt_xent`` (all, softmax, constant, scale 1/t, reduction mean), every
rising parabola of ``polynomial_relative`` (hardest, linear, constant), and ``polynomial_self`` with a gate where both
of its hinges are active (hardest, constant, linear).

References:
    [Sun2020] Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization, section 3.
        arXiv:2002.10857
    [Wang2019] Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, section 4.
        arXiv:1904.06627
    [MSCode] https://github.com/msight-tech/research-ms-loss: alpha 2, beta 40, base 0.5, epsilon 0.1
    [Xuan2023] Xuan and Chen, Dissecting Deep Metric Learning Losses for Image-Text Retrieval (GOAL), WACV 2023.
        arXiv:2210.13188
    [GOALCode] https://github.com/microsoft/VSE_Gradient/blob/ba3eb69/Gradient/gradient.py: triplet weights con, nca and
        cir, pair weights con, lin and sig, always with the hardest negative; ``tau`` there is 1 / temperature.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.losses.directions import Contributions, Direction, Negatives, TwoDirections, counted_negatives
from trainables.losses.parameters import Parameter, check_parameters, per_query, per_score


@dataclass(frozen=True)
class Circle(TwoDirections):
    """Circle loss with pairs for labels, in both directions [Sun2020]; any number of positives per query.

    Attributes:
        margin: Relaxation, >= 0, typical 0.25 to 0.4; a number or shape (...).
        scale: Sharpness (gamma), > 0, typical 32 to 256; a number or shape (...).

    Example:
        >>> import torch
        >>> round(float(Circle(margin=0.0, scale=1.0)(torch.zeros(2, 2), torch.eye(2, dtype=torch.bool))), 4)
        1.3133
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["circle"]
    margin: Parameter = parameters["margin"].default
    scale: Parameter = parameters["scale"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

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

    def _part(self, direction: Direction) -> Tensor:
        pulls, pushes = self._logits(direction)
        costs = -logsigmoid(-(pulls.logsumexp(-1) + pushes.logsumexp(-1)))
        return costs.masked_fill(~direction.negatives.any(-1), 0.0).mean(-1) / 2

    def _logits(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return the exponents of positives and negatives, shape (..., Q, M), -inf for other pairs."""
        margin, scale = (per_score(value, direction.scores) for value in (self.margin, self.scale))
        pull, push = self._weights(direction)
        pulls = (-scale * pull * (direction.scores - (1 - margin))).masked_fill(~direction.positives, -torch.inf)
        return pulls, direction.of_negatives(scale * push * (direction.scores - margin))

    def _weights(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return a_p and a_n of each pair, shape (..., Q, M)."""
        scores, margin = direction.scores.detach(), per_score(self.margin, direction.scores)
        return (1 + margin - scores).relu(), (scores + margin).relu()


@dataclass(frozen=True)
class MultiSimilarity(TwoDirections):
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

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["multi_similarity"]
    alpha: Parameter = parameters["alpha"].default
    beta: Parameter = parameters["beta"].default
    base: Parameter = parameters["base"].default
    epsilon: Parameter | None = parameters["epsilon"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """Weights of mined pairs: exp(beta (s - base)) and exp(-alpha (s - base)) over 1 + their sum."""
        pull, push = (
            (exponents - _log_one_plus_sum(exponents)[..., None]).exp() for exponents in self._exponents(direction)
        )
        return Contributions(direction.rows(push), direction.of_pairs(pull))

    def _part(self, direction: Direction) -> Tensor:
        pull, push = (_log_one_plus_sum(exponents) for exponents in self._exponents(direction))
        alpha, beta = (per_query(value, direction.scores) for value in (self.alpha, self.beta))
        return (pull / alpha + push / beta).mean(-1) / 2

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


@dataclass(frozen=True)
class GradientWeights(TwoDirections):
    """Weights of triplets and of pairs in place of a loss, in both directions; any number of positives per query.

    Attributes:
        triplet_weight: How a triplet weighs by its difference: ``constant``, ``linear``, ``softmax`` or ``circle``.
        pair_weight: How a pair weighs by its own similarity: ``constant``, ``linear`` or ``sigmoid``.
        negatives: The number of hardest negatives of a query that count, >= 1, a number or shape (...); ``hardest``,
            which is 1; or ``all``.
        reduction: ``sum`` over all pairs of both directions, or ``mean``: half of each direction's mean over queries.
        scale: Multiplies the gradient, > 0; a number or shape (...), like all parameters below.
        margin: Margin of ``constant`` and ``linear`` triplet weights, >= 0.
        slope: Slope of ``linear`` triplet weights, per unit of similarity beyond the margin.
        temperature: Temperature of ``softmax`` and ``circle`` triplet weights, > 0.
        positive_tilt: Tilt of ``linear`` pair weights on positives, >= 0: 0 is a constant, 1 is 1 - s_p.
        negative_tilt: Tilt of ``linear`` pair weights on negatives, >= 0: 0 is a constant, 1 is s_n.
        balance: Factor on the pair weights of negatives, > 0.
        alpha: Sharpness of ``sigmoid`` pair weights on positives, > 0.
        beta: Sharpness of ``sigmoid`` pair weights on negatives, > 0.
        base: Similarity at which a ``sigmoid`` pair weight is a half.

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.9, 0.8], [0.1, 0.4]], requires_grad=True)
        >>> loss = GradientWeights(triplet_weight="constant", pair_weight="constant")
        >>> loss(similarity, torch.eye(2, dtype=torch.bool)).backward()
        >>> similarity.grad.tolist()
        [[-1.0, 2.0], [0.0, -1.0]]
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["gradient_weights"]
    triplet_weight: Literal["constant", "linear", "softmax", "circle"] = parameters["triplet_weight"].default
    pair_weight: Literal["constant", "linear", "sigmoid"] = parameters["pair_weight"].default
    negatives: Negatives | Literal["hardest"] = parameters["negatives"].default
    reduction: Literal["sum", "mean"] = parameters["reduction"].default
    scale: Parameter = parameters["scale"].default
    margin: Parameter = parameters["margin"].default
    slope: Parameter = parameters["slope"].default
    temperature: Parameter = parameters["temperature"].default
    positive_tilt: Parameter = parameters["positive_tilt"].default
    negative_tilt: Parameter = parameters["negative_tilt"].default
    balance: Parameter = parameters["balance"].default
    alpha: Parameter = parameters["alpha"].default
    beta: Parameter = parameters["beta"].default
    base: Parameter = parameters["base"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is T P-, a positive's P+ times the sum of T, by definition; ``scale`` is left out."""
        negatives, counted = self._considered(direction)
        push, pull = self._weights(direction.positive, negatives, counted)
        return Contributions(push, pull * direction.share_of_pair() if self.reduction == "mean" else pull)

    def _part(self, direction: Direction) -> Tensor:
        negatives, counted = self._considered(direction)
        push, pull = self._weights(direction.positive.detach(), negatives.detach(), counted)
        terms = (push * negatives).sum(-1) - pull * direction.positive
        if self.reduction == "mean":
            terms = terms * (direction.share_of_pair() / (2 * direction.scores.shape[-2]))
        return (per_query(self.scale, terms) * terms).sum(-1)

    def _considered(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """Return similarities of each pair's query, shape (..., P, N), and which of these are of its negatives."""
        if isinstance(self.negatives, str):
            return counted_negatives(direction, 1 if self.negatives == "hardest" else "all")
        return counted_negatives(direction, self.negatives)

    def _weights(self, positive: Tensor, negatives: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
        """Return T P- of each pair and negative, shape (..., P, N), and P+ sum T of each pair, shape (..., P)."""
        triplet = self._triplet_weight(positive[..., None], negatives, counted).masked_fill(~counted, 0.0)
        pull, push = self._pair_weights(positive[..., None], negatives)
        return triplet * per_score(self.balance, negatives) * push, (triplet * pull).sum(-1)

    def _triplet_weight(self, positive: Tensor, negatives: Tensor, counted: Tensor) -> Tensor:
        if self.triplet_weight in ("constant", "linear"):
            # Added in the order of the triplet losses, (margin + s_n) - s_p, so that exact ties round alike.
            excess = per_score(self.margin, negatives) + negatives - positive
            inside = (excess > 0).to(excess.dtype)
            if self.triplet_weight == "constant":
                return inside
            return inside * (1 + per_score(self.slope, excess) * excess).relu()
        temperature = per_score(self.temperature, negatives)
        if self.triplet_weight == "circle":
            return ((negatives**2 - positive * (2 - positive) + 0.5) / temperature).sigmoid()
        logits = ((negatives - positive) / temperature).masked_fill(~counted, -torch.inf)
        # The 1 of the denominator is exp(0), the positive's own term.
        return torch.cat([torch.zeros_like(logits[..., :1]), logits], -1).softmax(-1)[..., 1:]

    def _pair_weights(self, positive: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
        """Return P+ and P- without the balance."""
        if self.pair_weight == "constant":
            return torch.ones_like(positive), torch.ones_like(negatives)
        if self.pair_weight == "linear":
            first, second = (per_score(tilt, negatives) for tilt in (self.positive_tilt, self.negative_tilt))
            return (1 - first * positive).relu(), (1 - second * (1 - negatives)).relu()
        alpha, beta, base = (per_score(value, negatives) for value in (self.alpha, self.beta, self.base))
        return (-alpha * (positive - base)).sigmoid(), (beta * (negatives - base)).sigmoid()
