"""Contrastive losses: NT-Xent, decoupled NT-Xent (DCL) and the sigmoid loss (SigLIP).

NT-Xent (InfoNCE): cross-entropy of the positive among all candidates, at a temperature.

    L = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q ),   l_q = - mean over positives p of q of  log softmax_p(s_q / t)

The denominator sums over every candidate that is not ignored, the positives included. With one positive per query, L is
the published loss; with several positives, l_q is the mean of their cross-entropies ("L_out" of [Khosla2020]).
``log_softmax`` subtracts the largest score first, so no temperature overflows.

Decoupled contrastive loss (DCL): NT-Xent without the positives in the denominator.

    l_q = mean over positives p of q of  ( -s_qp / t + log sum over negatives n of q of exp(s_qn / t) )
    L   = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

NT-Xent's gradient has the factor 1 - p, with p the positive's probability. The factor goes to 0 as p goes to 1, and the
earlier, the smaller the batch. Without the positive in the denominator the gradient has no such factor: the positive
always has weight 1. L has no lower bound. A query without negatives has l_q = 0.

Sigmoid loss (SigLIP): each pair of an image and a caption is classified on its own as positive or negative.

    l_q = sum over positives p of q:  -log sigmoid(z_qp)  +  sum over negatives n of q:  -log sigmoid(-z_qn)
    z   = s / t + b,    L = 1/2 mean_i2t( l_q ) + 1/2 mean_t2i( l_q )

With one positive per query both directions have the same mean, and L is the published loss. For several captions per
image, a case that the paper does not mention, the directions are averaged as in NT-Xent. ``logsigmoid`` overflows at no
temperature.

Hardness: each of the three losses can weigh its negatives by exp(alpha sg(s)), where sg stops the gradient and
alpha >= 0 is ``hardness`` [Lan2025, eq. 5]:

    the logit of a negative becomes  s / t + alpha sg(s)  (sigmoid: + b); a positive keeps its logit

The weights grow with the similarity, so harder negatives push more. The derivative of the added term is 0, so the
gradient by a score keeps its closed form, with the new probabilities. [Lan2025] weighs all negatives, with alpha = 9.
[Vera2025] weighs mined hard negatives alone, with alpha = 5; here ``hardness_mode: hardest`` weighs the hardest
negative of each query alone.

References:
    [Oord2018] van den Oord et al., Representation Learning with Contrastive Predictive Coding, eq. 4. arXiv:1807.03748
    [Chen2020] Chen et al., A Simple Framework for Contrastive Learning of Visual Representations. arXiv:2002.05709
    [Khosla2020] Khosla et al., Supervised Contrastive Learning, eq. 2. arXiv:2004.11362
    [Yeh2022] Yeh et al., Decoupled Contrastive Learning, section 3. arXiv:2110.06848
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2 and algorithm 1. arXiv:2303.15343
    [Lan2025] Lan et al., LLaVE: Large Language and Vision Embedding Models with Hardness-Weighted Contrastive Learning,
        section 4.1. arXiv:2503.04812
    [Vera2025] Schechter Vera et al., EmbeddingGemma: Powerful and Lightweight Text Representations, section 2.
        arXiv:2509.20354
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.losses.directions import Candidates, Contributions, Direction, TwoDirections, directions, with_hardest
from trainables.losses.parameters import LearnableParameter, Parameter, check_parameters, per_query, per_score

HardnessMode = Literal["all", "hardest"]
"""The negatives whose logits ``hardness`` raises: all negatives of a query, or its hardest."""


def _weigh_negatives(logits: Tensor, direction: Direction, hardness: Parameter, mode: HardnessMode = "all") -> Tensor:
    """Return the logits, (..., Q, M), with alpha sg(s) added to those of negatives."""
    if not isinstance(hardness, Tensor) and hardness == 0:
        return logits
    raised = (direction if mode == "all" else with_hardest(direction, 1)).negatives
    added = per_score(hardness, direction.scores) * direction.scores.detach()
    return logits + added.masked_fill(~raised, 0.0)


@dataclass(frozen=True)
class NTXent(TwoDirections):
    """NT-Xent between images and captions [Chen2020], with no terms inside a modality.

    Attributes:
        temperature: Divides the similarities, > 0, typical 0.01 to 0.2; a number, shape (...), or ``learned``
            as in CLIP.
        hardness: alpha of [Lan2025], >= 0; a number or shape (...). 0 is NT-Xent itself.
        hardness_mode: The negatives that it weighs: ``all`` of a query, or its ``hardest``.

    Example:
        >>> import torch
        >>> round(float(NTXent(temperature=1.0)(torch.eye(2), torch.eye(2, dtype=torch.bool))), 4)
        0.3133
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["nt_xent"]
    temperature: LearnableParameter = parameters["temperature"].default
    hardness: Parameter = parameters["hardness"].default
    hardness_mode: HardnessMode = parameters["hardness_mode"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is its probability p, a positive's |1/k - p|, k the positives of its query.

        Differentiate l_q, the mean of the cross-entropies of k positives. Each positive lowers the probability of the
        k - 1 others, so a query has no gradient where its k positives all have probability 1/k. The factor 1/t is left
        out.
        """
        probabilities = self._log_probabilities(direction).exp()
        negatives = direction.rows(probabilities.masked_fill(~direction.negatives, 0.0))
        return Contributions(negatives, (direction.share_of_pair() - direction.of_pairs(probabilities)).abs())

    def _part(self, direction: Direction) -> Tensor:
        log_probabilities = direction.of_pairs(self._log_probabilities(direction))
        return -(log_probabilities * direction.share_of_pair()).sum(-1) / direction.scores.shape[-2] / 2

    def _log_probabilities(self, direction: Direction) -> Tensor:
        """Return log softmax over the candidates, shape (..., Q, M)."""
        logits = direction.scores / per_score(self.temperature, direction.scores)
        logits = _weigh_negatives(logits, direction, self.hardness, self.hardness_mode)
        if direction.ignored is not None:
            logits = logits.masked_fill(direction.ignored, -torch.inf)
        return logits.log_softmax(-1)


@dataclass(frozen=True)
class Decoupled(TwoDirections):
    """Decoupled contrastive loss between images and captions [Yeh2022], with no terms inside a modality.

    Attributes:
        temperature: Divides the similarities, > 0, typical 0.05 to 0.5; a number or shape (...).
        hardness: alpha of [Lan2025], >= 0; a number or shape (...).
        hardness_mode: The negatives that it weighs: ``all`` of a query, or its ``hardest``.

    Example:
        >>> import torch
        >>> float(Decoupled(temperature=1.0)(torch.eye(2), torch.eye(2, dtype=torch.bool)))
        -1.0
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["decoupled"]
    temperature: Parameter = parameters["temperature"].default
    hardness: Parameter = parameters["hardness"].default
    hardness_mode: HardnessMode = parameters["hardness_mode"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is its probability among the negatives, a positive's 1/k, k the positives of its query.

        Differentiate l_q; the factor 1/t is left out. Without negatives all weights are 0.
        """
        kept = direction.negatives.any(-1)
        probabilities = self._logits(direction).softmax(-1).masked_fill(~direction.negatives, 0.0)
        pulls = direction.share_of_pair() * direction.per_pair(kept)
        return Contributions(direction.rows(probabilities), pulls.expand(*probabilities.shape[:-2], -1))

    def _part(self, direction: Direction) -> Tensor:
        scaled = direction.positive / per_query(self.temperature, direction.scores)
        costs = direction.per_pair(self._logits(direction).logsumexp(-1)) - scaled
        costs = costs.masked_fill(~direction.per_pair(direction.negatives.any(-1)), 0.0)
        return (costs * direction.share_of_pair()).sum(-1) / direction.scores.shape[-2] / 2

    def _logits(self, direction: Direction) -> Tensor:
        logits = direction.scores / per_score(self.temperature, direction.scores)
        return direction.of_negatives(_weigh_negatives(logits, direction, self.hardness, self.hardness_mode))


@dataclass(frozen=True)
class Sigmoid:
    """Sigmoid loss of each pair of an image and a caption, as SigLIP has it [Zhai2023].

    Attributes:
        temperature: Divides the similarities, > 0; a number, shape (...), or ``learned``: 1/10 at first, and the scale
            between 1 and 100.
        bias: Added to the scaled similarities, because most pairs are negatives; a finite number, shape (...), or
            ``learned``: -10 at first.
        hardness: alpha of [Lan2025] for each pair that is a negative, >= 0; a number or shape (...).

    Example:
        >>> import torch
        >>> loss = Sigmoid(temperature=1.0, bias=0.0)
        >>> round(float(loss(torch.eye(2), torch.eye(2, dtype=torch.bool))), 4)
        1.0064
    """

    parameters: ClassVar[Entries] = LOSS_PARAMETERS["sigmoid"]
    temperature: LearnableParameter = parameters["temperature"].default
    bias: LearnableParameter = parameters["bias"].default
    hardness: Parameter = parameters["hardness"].default

    def __post_init__(self) -> None:
        check_parameters(self, self.parameters)

    def __call__(
        self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None, candidates: Candidates | None = None
    ) -> Tensor:
        """Return the loss, shape (...), >= 0; arguments and errors as in ``directions``."""
        i2t, t2i = directions(similarity, positives, ignore, candidates)
        images, captions = len(positives), t2i.scores.shape[-2]
        if candidates is not None or captions < positives.shape[1]:
            return (self._costs(i2t) / images + self._costs(t2i) / captions) / 2
        # Both directions sum the same costs; each direction divides the sum by the number of its queries.
        return self._costs(i2t) * (1 / images + 1 / captions) / 2

    def contributions(self, direction: Direction) -> Contributions:
        """A negative's weight is sigmoid(z), a positive's sigmoid(-z): the error of each decision.

        Differentiate l_q; the factor 1/t is left out.
        """
        logits = self._logits(direction)
        negatives = logits.sigmoid().masked_fill(~direction.negatives, 0.0)
        return Contributions(direction.rows(negatives), direction.of_pairs((-logits).sigmoid()))

    def _costs(self, direction: Direction) -> Tensor:
        """Return the sum of the costs of all pairs, shape (...)."""
        logits = self._logits(direction)
        costs = -logsigmoid(torch.where(direction.positives, logits, -logits))
        if direction.ignored is not None:
            costs = costs.masked_fill(direction.ignored, 0.0)
        return costs.sum((-2, -1))

    def _logits(self, direction: Direction) -> Tensor:
        """Return z of each pair, shape (..., Q, M)."""
        scaled = direction.scores / per_score(self.temperature, direction.scores)
        return _weigh_negatives(scaled + per_score(self.bias, direction.scores), direction, self.hardness)
