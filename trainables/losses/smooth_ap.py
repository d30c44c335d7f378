"""SmoothAP: one minus average precision, with ranks made differentiable by a sigmoid.

    L = 1/2 mean_i2t( 1 - AP_q ) + 1/2 mean_t2i( 1 - AP_q ),   AP_q = mean over positives i of q of  R+_i / R_i
    R_i  = 1 + sum over candidates j != i of  sigmoid((s_j - s_i) / t)
    R+_i = 1 + the same sum over the positives j != i

A rank counts the candidates j that score higher than i, hence s_j - s_i. (The text of [Bleeker2022] prints s_i - s_j;
its code and its gradient, eq. 12, have the sign above.) Only the rows of positives are needed, P x C numbers for P
positive pairs, where the published code builds Q x C x C. A sigmoid never overflows, so the published clamp of its
exponent at +-50, which sets gradients below 1e-21/t to 0, is not needed.

References:
    [Brown2020] Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval. arXiv:2007.12163
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        eq. 6 to 8, 12 and 13. arXiv:2202.07474
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import Parameter, per_query, per_score, require_above_zero


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

    temperature: Parameter = 0.01

    def __post_init__(self) -> None:
        require_above_zero("temperature", self.temperature)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), in [0, 1]; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return 1 - (self._mean_precision(i2t) + self._mean_precision(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A candidate j of positive i is counted by eq. 13 [Bleeker2022]; the weights are those of the gradient.

        With G = sigmoid((s_j - s_i)/t), candidate j is counted where G (1 - G) / R_i^2 exceeds epsilon. Eq. 13 prints
        this number with a factor 1/t, 100 at the usual temperature. The published tables with their epsilon of 0.01
        leave out the factor, and so does this count. Eq. 13 also leaves out the factors R+_i of negatives and
        R_i - R+_i of other positives. So a query whose gradient is 0 can have counted candidates: positives that score
        alike count each other, even where all positives are above all negatives.

        The weights include the factors R+_i and R_i - R+_i and leave out 1/t: R+_i G (1 - G) / R_i^2 for a negative of
        the pair, 0 for another positive, and |dl_q/ds| t for the pair's own positive.
        """
        exceeds = self._exceeds(direction)
        negatives = exceeds.masked_fill(direction.rows(direction.positives), 0.0)
        rank = 0.5 + exceeds.sum(-1, keepdim=True)
        beyond = negatives.sum(-1, keepdim=True)
        criterion = _without_own(exceeds * (1 - exceeds) / rank.square(), direction)
        # Slopes of 1 - R+/R with respect to s_j: a negative raises only R, another positive raises R+ and R.
        slopes = torch.where(direction.rows(direction.positives), -beyond, rank - beyond) * criterion
        own = direction.of_pairs(direction.sum_of_pairs(slopes)) - slopes.sum(-1)
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


def _without_own(matrix: Tensor, direction: Direction) -> Tensor:
    """Return a matrix of shape (..., P, M) with 0 at the positive of each pair."""
    own = direction.candidate[:, None].expand(*matrix.shape[:-1], 1)
    return matrix.scatter(-1, own, 0.0)
