"""NT-Xent (InfoNCE): cross-entropy of the positive among all candidates, at a temperature.

    L = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q ),   l_q = - mean over positives p of q of  log softmax_p(s_q / t)

The denominator sums over every candidate that is not ignored, the positives included. With one positive per query, L is
the published loss; with several positives, l_q is the mean of their cross-entropies ("L_out" of [Khosla2020]).
``log_softmax`` subtracts the largest score first, so no temperature overflows.

References:
    [Oord2018] van den Oord et al., Representation Learning with Contrastive Predictive Coding, eq. 4. arXiv:1807.03748
    [Chen2020] Chen et al., A Simple Framework for Contrastive Learning of Visual Representations. arXiv:2002.05709
    [Khosla2020] Khosla et al., Supervised Contrastive Learning, eq. 2. arXiv:2004.11362
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import CLIP_TEMPERATURE, Learnable, LearnableParameter, per_score, require_above_zero


@dataclass(frozen=True)
class NTXent:
    """NT-Xent between images and captions [Chen2020], with no terms inside a modality.

    Attributes:
        temperature: Divides the similarities, > 0, typical 0.01 to 0.2; a number, shape (...), or ``learned``
            as in CLIP.

    Example:
        >>> import torch
        >>> round(float(NTXent(temperature=1.0)(torch.eye(2), torch.eye(2, dtype=torch.bool))), 4)
        0.3133
    """

    learnable: ClassVar[Mapping[str, Learnable]] = {"temperature": CLIP_TEMPERATURE}
    temperature: LearnableParameter = 0.1

    def __post_init__(self) -> None:
        require_above_zero("temperature", self.temperature, learnable=True)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return (self._cross_entropy(i2t) + self._cross_entropy(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is its probability p, a positive's |1/k - p|, k the positives of its query.

        Differentiate l_q, the mean of the cross-entropies of k positives: each positive lowers the probability of the
        k - 1 others, so a query whose k positives have probability 1/k each has no gradient. The factor 1/t is left
        out.
        """
        probabilities = self._log_probabilities(direction).exp()
        negatives = direction.rows(probabilities.masked_fill(~direction.negatives, 0.0))
        return Contributions(negatives, (direction.share_of_pair() - direction.of_pairs(probabilities)).abs())

    def _cross_entropy(self, direction: Direction) -> Tensor:
        log_probabilities = direction.of_pairs(self._log_probabilities(direction))
        return -(log_probabilities * direction.share_of_pair()).sum(-1) / direction.scores.shape[-2]

    def _log_probabilities(self, direction: Direction) -> Tensor:
        """Return log softmax over the candidates, shape (..., Q, M)."""
        logits = direction.scores / per_score(self.temperature, direction.scores)
        if direction.ignored is not None:
            logits = logits.masked_fill(direction.ignored, -torch.inf)
        return logits.log_softmax(-1)
