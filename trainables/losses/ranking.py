"""Losses of the rank of a positive: SmoothAP and WARP.

SmoothAP: one minus average precision, with ranks made differentiable by a sigmoid.

    L = 1/2 mean_i2t( 1 - AP_q ) + 1/2 mean_t2i( 1 - AP_q ),   AP_q = mean over positives i of q of  R+_i / R_i
    R_i  = 1 + sum over candidates j != i of  sigmoid((s_j - s_i) / t)
    R+_i = 1 + the same sum over the positives j != i

A rank counts the candidates j that score higher than i, hence s_j - s_i. (The text of [Bleeker2022] prints s_i - s_j;
its code and its gradient, eq. 12, have the sign above.) Only the rows of positives are needed, P x C numbers for P
positive pairs, where the published code builds Q x C x C. A sigmoid never overflows, so the published clamp of its
exponent at +-50, which sets gradients below 1e-21/t to 0, is not needed.

WARP: the weighted approximate-rank pairwise loss of WSABIE, on a similarity matrix.

For a query with M negatives and each of its positives, negatives are drawn uniformly with replacement until a negative
violates the margin, s_n > s+ - margin, after N <= M draws. The pair's loss is 0 without a violator, and otherwise

    L( floor(M / N) ) * [margin - s+ + s_n]+ ,   L(r) = sum_{j=1..r} alpha_j

    rank_weight   harmonic   alpha_j = 1/j                            as published
                  constant   alpha_j = 1/M:  L(r) = r/M               the mean rank
                  top_k      alpha_j = 1/top for j <= top, else 0     precision among the first ``top``

The mean over all pairs of a query and a positive is taken. With one positive each, M = C - 1 [Verma2014, alg. 2].
[Usunier2009] and [Weston2011, section 3.1] say which measure of the ranking each choice of alpha bounds; with ``top`` 1
every rank has weight 1.

WSABIE draws from the whole train split. So does an image of a dataset of labels, whose batches have the vocabulary for
columns. With a bank, M counts the embeddings of earlier batches too, and the gradient goes to the query alone
(``trainables.bank``).

The sequence of draws is not simulated: with V of M negatives violating, N is geometric with success probability V / M,
and the violator is uniform among the V. One number is drawn for N and one for the violator, which gives the exact joint
distribution in O(C) per pair. The weight L is a constant to the gradient. Draws come from torch's generator of the
device and are shared by stacked trials, so that after seeding, K stacked trials draw the numbers that each of K
separate calls would draw after the seeding. Compiled code draws other numbers from a seed than eager code.

References:
    [Brown2020] Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval. arXiv:2007.12163
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        eq. 6 to 8, 12 and 13. arXiv:2202.07474
    [Usunier2009] Usunier et al., Ranking with Ordered Weighted Pairwise Classification. ICML 2009.
    [Weston2011] Weston et al., WSABIE: Scaling Up to Large Vocabulary Image Annotation, IJCAI 2011.
    [Verma2014] Verma and Jawahar, Im2Text and Text2Im: Associating Images and Texts for Cross-Modal Retrieval,
        algorithm 2. BMVC 2014.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.losses.directions import Candidates, Contributions, Direction, directions
from trainables.losses.parameters import Parameter, check_parameters, per_query, per_score


@dataclass(frozen=True)
class SmoothAP:
    """SmoothAP over both directions [Brown2020]; any number of positives per query.

    Attributes:
        temperature: Divides differences of similarities, > 0, typical 0.01; a number or shape (...). As the temperature
            goes to 0, the loss goes to 1 - AP.

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.9, 0.8], [0.1, 0.4]])
        >>> round(float(SmoothAP(temperature=0.01)(similarity, torch.eye(2, dtype=torch.bool))), 4)
        0.125
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["smooth_ap"]
    temperature: Parameter = parameters["temperature"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def __call__(
        self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None, candidates: Candidates | None = None
    ) -> Tensor:
        """Return the loss, shape (...), in [0, 1]; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore, candidates)
        return 1 - (self._mean_precision(i2t) + self._mean_precision(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A candidate j of positive i is counted by eq. 13 [Bleeker2022]; the weights are those of the gradient.

        With G = sigmoid((s_j - s_i)/t), candidate j is counted where G (1 - G) / R_i^2 exceeds epsilon. Eq. 13 prints
        this number with a factor 1/t, 100 at the usual temperature. The published tables with their epsilon of 0.01
        leave out the factor, and so does this count. Eq. 13 also leaves out the factors R+_i of negatives and
        R_i - R+_i of other positives. So a query whose gradient is 0 can have counted candidates. Positives that score
        alike count each other, even where all positives are above all negatives.

        The weights include the factors R+_i and R_i - R+_i and leave out 1/t: R+_i G (1 - G) / R_i^2 for a negative of
        the pair, 0 for another positive, and |dl_q/ds| t for the pair's own positive.
        """
        exceeds = self._exceeds(direction)
        negatives = exceeds.masked_fill(direction.rows(direction.positives), 0.0)
        rank = 0.5 + exceeds.sum(-1, keepdim=True)
        beyond = negatives.sum(-1, keepdim=True)
        own_place = direction.candidate[:, None].expand(*exceeds.shape[:-1], 1)
        criterion = (exceeds * (1 - exceeds) / rank.square()).scatter(-1, own_place, 0.0)
        # Slopes of 1 - R+/R with respect to s_j: a negative raises only R, another positive raises R+ and R.
        slopes = torch.where(direction.rows(direction.positives), -beyond, rank - beyond) * criterion
        own = direction.of_pairs(direction.sum_per_query(slopes.mT).mT) - slopes.sum(-1)
        return Contributions(slopes.clamp(min=0), (own * direction.share_of_pair()).abs(), criterion)

    def _mean_precision(self, direction: Direction) -> Tensor:
        exceeds = self._exceeds(direction)
        # The positive itself is in both sums with sigmoid(0) = 1/2 and no gradient: 1 + (sum - 1/2).
        rank = 0.5 + exceeds.sum(-1)
        if direction.pairs_are_queries:
            return (1 / rank).mean(-1)
        rank_in_positives = 0.5 + torch.where(direction.rows(direction.positives), exceeds, 0.0).sum(-1)
        return (rank_in_positives / rank * direction.share_of_pair()).sum(-1) / direction.scores.shape[-2]

    def _exceeds(self, direction: Direction) -> Tensor:
        """Return sigmoid((s_j - s_i)/t) of each pair i and candidate j, shape (..., P, M); 0 for ignored candidates."""
        # Dividing before taking rows divides Q x M numbers instead of P x M. Equal scores stay equal.
        scaled = direction.scores / per_score(self.temperature, direction.scores)
        positive = direction.positive / per_query(self.temperature, direction.scores)
        exceeds = (direction.rows(scaled) - positive[..., None]).sigmoid()
        return exceeds if direction.ignored is None else exceeds.masked_fill(direction.rows(direction.ignored), 0.0)


EULER_GAMMA = 0.5772156649015329
"""-digamma(1)."""


@dataclass(frozen=True)
class WARP:
    """WARP loss [Weston2011]; random: seed torch to repeat it.

    Captions of the query's own image are positives or ignored, never drawn; the published algorithm draws them.

    Attributes:
        margin: In units of similarity, >= 0; a number or shape (...). 1 as published; the cosines here span 2.
        direction: ``i2t`` (the published direction), ``t2i``, or ``both``: the sum of the two.
        rank_weight: ``harmonic`` (as published), ``constant`` or ``top_k``: how a rank weighs.
        top: With ``top_k``, the ranks beyond which a rank weighs no more, >= 1; a number or shape (...).
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["warp"]
    margin: Parameter = parameters["margin"].default
    direction: Literal["both", "i2t", "t2i"] = parameters["direction"].default
    rank_weight: Literal["harmonic", "constant", "top_k"] = parameters["rank_weight"].default
    top: int | Tensor = parameters["top"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def __call__(
        self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None, candidates: Candidates | None = None
    ) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore, candidates)
        if self.direction == "both":
            return self._mean(i2t) + self._mean(t2i)
        return self._mean(i2t if self.direction == "i2t" else t2i)

    def contributions(self, direction: Direction) -> Contributions:
        """Weights of the expected gradient, without a draw: each violator has E[weight] / V, the positive E[weight].

        The hinge of a drawn violator has slope 1, times L. With v = V / M the probability that a draw violates, the
        expected weight is E[weight] = sum_{N=1..M} v (1 - v)^(N-1) L(floor(M / N)), and all V violators are equally
        likely to be drawn. In a direction that is not trained all weights are 0.
        """
        violators = self._violators(direction)
        violating = violators.sum(-1)
        total = direction.per_pair(direction.negatives.sum(-1))
        expected = self._expected_weight(violating, total, direction.scores) * (
            self.direction in ("both", direction.name)
        )
        share = expected / violating.clamp(min=1)
        return Contributions(violators * share[..., None], expected)

    def _mean(self, direction: Direction) -> Tensor:
        rows = direction.rows(direction.scores)
        running = self._violators(direction).cumsum(-1, dtype=torch.int32)
        violating = running[..., -1]
        total = direction.per_pair(direction.negatives.sum(-1))
        for_draws, for_choice = torch.rand(2, len(direction.query), dtype=rows.dtype, device=rows.device)
        draws = _draws(violating / total.clamp(min=1), 1 - for_draws)
        drawn = draws <= total
        # The k-th violator, k uniform in 1 ... V, is the candidate at which the running count reaches k.
        kth = torch.minimum((for_choice * violating).int() + 1, violating)
        chosen = torch.searchsorted(running, kth[..., None].contiguous()).clamp(max=rows.shape[-1] - 1)
        # Both similarities in one gather, because the gradient of each gather is a whole matrix.
        both = torch.cat([direction.candidate[:, None].expand_as(chosen), chosen], -1)
        positive, negative = rows.expand(*chosen.shape[:-1], -1).gather(-1, both).unbind(-1)
        rank = total // torch.minimum(draws, total.clamp(min=1)).long()
        weight = self._weight_of(rank.to(rows.dtype), total, per_query(self.top, rows)) * drawn
        cost = (per_query(self.margin, rows) - positive + negative).relu()
        # A comparison with NaN is false, which would hide the NaN, so 0 times the sum of all scores is added.
        return (weight * cost).mean(-1) + 0 * rows.detach().sum((-2, -1))

    def _expected_weight(self, violating: Tensor, total: Tensor, scores: Tensor) -> Tensor:
        """Return E[L(floor(M / N)); N <= M] of each pair, shape (..., P)."""
        draws = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
        chance = (violating.to(scores.dtype) / total.clamp(min=1))[..., None]
        # 0^0 = 1: where every negative violates, the first draw succeeds.
        probability = chance * (1 - chance) ** (draws - 1) * (draws <= total[:, None])
        ranks = (total[:, None] // draws).to(scores.dtype)
        return (probability * self._weight_of(ranks, total[:, None], per_score(self.top, scores))).sum(-1)

    def _weight_of(self, rank: Tensor, total: Tensor, top: Parameter) -> Tensor:
        """Return L of each rank among ``total`` negatives."""
        if self.rank_weight == "constant":
            return rank / total.clamp(min=1)
        if self.rank_weight == "top_k":
            return (rank / top).clamp(max=1)
        # sum_{j=1..r} 1/j = digamma(r + 1) + gamma; a table's cumsum is not deterministic on a GPU.
        return torch.digamma(rank + 1) + EULER_GAMMA

    def _violators(self, direction: Direction) -> Tensor:
        """Return the negatives within the margin of each pair's positive, shape (..., P, M), bool."""
        bound = direction.positive - per_query(self.margin, direction.scores)
        return (direction.rows(direction.scores) > bound[..., None]) & direction.rows(direction.negatives)


def _draws(chance: Tensor, uniform: Tensor) -> Tensor:
    """Return a geometric number of draws up to the first success, >= 1, from a uniform number in (0, 1].

    With chance 0 the number is infinite. With chance 1 the logarithm is infinite, and the number is 1.
    """
    draws = 1 + (uniform.log() / (-chance).log1p()).floor()
    return draws.masked_fill(chance == 0, torch.inf)
