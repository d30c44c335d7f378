"""NT-Xent (InfoNCE): cross-entropy of the positive among all candidates, at a temperature.

    L = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q ),   l_q = - mean over positives p of q of  log softmax_p(s_q / t)

The denominator holds every candidate that is not ignored, the positives too. With one positive per query it is the
published loss; with several it is the mean of their cross-entropies ("L_out" of [Khosla2020]). ``log_softmax``
subtracts the largest score first, so no temperature overflows.

References:
    [Oord2018] van den Oord et al., Representation Learning with Contrastive Predictive Coding, eq. 4. arXiv:1807.03748
    [Chen2020] Chen et al., A Simple Framework for Contrastive Learning of Visual Representations. arXiv:2002.05709
    [Khosla2020] Khosla et al., Supervised Contrastive Learning, eq. 2. arXiv:2004.11362
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.losses.contributions import Contributions
from trainables.losses.directions import Direction, directions
from trainables.losses.parameters import Parameter, per_score, require_above_zero


@dataclass(frozen=True)
class NTXent:
    """NT-Xent between images and captions [Chen2020], with no terms inside a modality.

    Attributes:
        temperature: Divides the similarities, > 0, typical 0.01 to 0.2; a number or shape (...).

    Example:
        >>> import torch
        >>> round(float(NTXent(temperature=1.0)(torch.eye(2), torch.eye(2, dtype=torch.bool))), 4)
        0.3133
    """

    temperature: Parameter = 0.1

    def __post_init__(self) -> None:
        require_above_zero("temperature", self.temperature)

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors are those of ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore)
        return (self._cross_entropy(i2t) + self._cross_entropy(t2i)) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is its probability; the positive's is one minus its own (times 1/t, left out)."""
        probabilities = self._log_probabilities(direction).exp()
        negatives = direction.rows(probabilities.masked_fill(~direction.negatives, 0.0))
        return Contributions(negatives, 1 - _of_pairs(probabilities, direction))

    def _cross_entropy(self, direction: Direction) -> Tensor:
        log_probabilities = _of_pairs(self._log_probabilities(direction), direction)
        weights = 1 / direction.per_pair(direction.positives_per_query()).to(direction.scores.dtype)
        return -(log_probabilities * weights).sum(-1) / direction.scores.shape[-2]

    def _log_probabilities(self, direction: Direction) -> Tensor:
        """Return log softmax over the candidates, shape (..., Q, M)."""
        logits = direction.scores / per_score(self.temperature, direction.scores)
        if direction.ignored is not None:
            logits = logits.masked_fill(direction.ignored, -torch.inf)
        return logits.log_softmax(-1)


def _of_pairs(matrix: Tensor, direction: Direction) -> Tensor:
    """Return the entry of each pair, shape (..., P), of a matrix of shape (..., Q, M)."""
    return matrix.flatten(-2).index_select(-1, direction.query * matrix.shape[-1] + direction.candidate)
