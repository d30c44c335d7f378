"""Sigmoid loss (SigLIP): each pair of an image and a caption is classified on its own as positive or negative.

    l_q = sum over positives p of q:  -log sigmoid(z_qp)  +  sum over negatives n of q:  -log sigmoid(-z_qn)
    z   = s / t + b,    L = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

With one positive per query both directions have the same mean, and L is the published loss. For several captions per
image, a case that the paper does not mention, the directions are averaged as in NT-Xent. ``logsigmoid`` overflows at no
temperature.

References:
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2 and algorithm 1. arXiv:2303.15343
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import (
    Learnable,
    LearnableParameter,
    per_score,
    require_above_zero,
    require_finite_number,
)


@dataclass(frozen=True)
class Sigmoid:
    """Sigmoid loss of each pair of an image and a caption, as SigLIP has it [Zhai2023].

    Attributes:
        temperature: Divides the similarities, > 0; a number, shape (...), or ``learned``: 1/10 at first, and the scale
            between 1 and 100.
        bias: Added to the scaled similarities, because most pairs are negatives; a finite number, shape (...), or
            ``learned``: -10 at first.

    Example:
        >>> import torch
        >>> loss = Sigmoid(temperature=1.0, bias=0.0)
        >>> round(float(loss(torch.eye(2), torch.eye(2, dtype=torch.bool))), 4)
        1.0064
    """

    learnable: ClassVar[Mapping[str, Learnable]] = {
        "temperature": Learnable(initial=0.1, minimum=0.01, maximum=1.0, is_logarithmic=True),
        "bias": Learnable(initial=-10.0),
    }
    temperature: LearnableParameter = 0.1
    bias: LearnableParameter = -10.0

    def __post_init__(self) -> None:
        require_above_zero("temperature", self.temperature, learnable=True)
        require_finite_number("bias", self.bias, learnable=True)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, _ = directions(similarity, positives, ignore)
        logits = self._logits(i2t)
        costs = -logsigmoid(torch.where(i2t.positives, logits, -logits))
        if i2t.ignored is not None:
            costs = costs.masked_fill(i2t.ignored, 0.0)
        # Both directions sum the same costs; each direction divides the sum by the number of its queries.
        images, captions = positives.shape
        return costs.sum((-2, -1)) * (1 / images + 1 / captions) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is sigmoid(z), a positive's sigmoid(-z): the error of each decision.

        Differentiate l_q; the factor 1/t is left out.
        """
        logits = self._logits(direction)
        negatives = logits.sigmoid().masked_fill(~direction.negatives, 0.0)
        return Contributions(direction.rows(negatives), direction.of_pairs((-logits).sigmoid()))

    def _logits(self, direction: Direction) -> Tensor:
        """Return z of each pair, shape (..., Q, M)."""
        scaled = direction.scores / per_score(self.temperature, direction.scores)
        return scaled + per_score(self.bias, direction.scores)
