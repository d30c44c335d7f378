"""SCAN: regions and words that attend to each other, compared pair by pair of an image and a caption.

Regions are mapped by one linear map, words by a bidirectional GRU whose directions are averaged. Vectors of regions and
words are scaled to unit length. In the similarity of the two sets, each member of one set attends to the other set. For
unit vectors x_a of a context and y_b of a query, which are regions and words (t2i) or words and regions (i2t),

    s_ab = x_a . y_b        alpha_ab = softmax over a of lambda_softmax u_ab        c_b = sum_a alpha_ab x_a

with u the normalised s (``NORMS``, over the query's members b). The score of member b is the cosine of y_b and c_b. The
similarity aggregates the scores of all members (``AGGREGATIONS``): their mean, or (1/lambda_lse) log sum_b
exp(lambda_lse score_b). In u, the paper clips s at 0, while the published code multiplies negative s by 0.1.

The vectors c_b are not computed, because their cosines need only products, with G the matrix of products x_a . x_a':

    y_b . c_b = sum_a alpha_ab s_ab        |c_b|^2 = sum_aa' alpha_ab G_aa' alpha_a'b

With E dimensions and A context members this takes A numbers instead of the E numbers of an attended vector, and half of
the products.

To limit memory, captions are sorted by length and cut into groups with little padding, and contexts into blocks. The
intermediate results of the first blocks, about eight, are kept for the backward pass, up to ``KEPT`` numbers each. The
results of the other blocks are computed again.

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024; code
        kuanghuei/SCAN@053693f, model.py:66-160 (encoders) and 163-298 (similarity).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize
from torch.utils.checkpoint import checkpoint

from trainables.model_parameters import MODEL_TABLE
from trainables.models.gru import all_states
from trainables.models.pair_model import PairModel
from trainables.models.retrieval_model import computing_in_full, draw_projection, in_full, linear
from trainables.representations import Sets, as_sets

PARAMETERS = MODEL_TABLE["scan"].parameters

GROUP = 32
"""Number of captions in a group; captions of a group are padded to a common length."""

BLOCK = 1 << 19
"""Number of products s in a block; intermediate results of this size fit a CPU's caches."""

KEPT = 1 << 24
"""Number of products s in all blocks whose intermediate results are kept for the backward pass."""

SMALL = 1e-8
"""Least divisor: smaller lengths are replaced by this number [Lee2018, code]."""


class RegionWordModel(PairModel):
    """A model of SCAN's encoders: images as unit vectors of their regions, captions as unit vectors of their words."""

    def __init__(self, region_size: int, vocabulary_size: int, embedding_size: int, word_size: int) -> None:
        """Take the numbers of stored features of a region, of words, and of dimensions of vectors and words."""
        super().__init__()
        self.image_projection = nn.Linear(region_size, embedding_size)
        self.words = nn.Embedding(vocabulary_size, word_size)
        self.gru = nn.GRU(word_size, embedding_size, batch_first=True, bidirectional=True)
        draw_projection(self.image_projection)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def encode_images(self, features: Any) -> Sets:
        """Map stored regions (I, R, D), or sets of such, to unit vectors (I, R, embedding_size)."""
        stored = as_sets(features)
        regions = normalize(in_full(linear(self.image_projection, stored.vectors)), dim=-1, eps=1e-12)
        return Sets(regions if stored is not features else regions * stored.inside[..., None], stored.lengths)

    def encode_captions(self, tokens: Any, lengths: Tensor) -> Sets:
        """Map captions (C, T) with their lengths (C,) on the CPU to unit vectors of words (C, T, embedding_size)."""
        with computing_in_full(tokens.device):
            states = all_states(self.words.weight, self.gru, tokens, lengths)
            return Sets(normalize(states, dim=-1, eps=1e-12), lengths)


class SCAN(RegionWordModel):
    """Images as unit vectors of their regions, captions as unit vectors of their words."""

    can_stack = True
    stacked_settings = ("lambda_softmax", "lambda_lse")
    lambda_softmax: float | Tensor
    lambda_lse: float | Tensor

    def __init__(
        self,
        region_size: int,
        vocabulary_size: int,
        embedding_size: int,
        word_size: int,
        *,
        cross_attention: str = PARAMETERS["cross_attention"].default,
        raw_feature_norm: str = PARAMETERS["raw_feature_norm"].default,
        aggregation: str = PARAMETERS["aggregation"].default,
        lambda_softmax: float = PARAMETERS["lambda_softmax"].default,
        lambda_lse: float = PARAMETERS["lambda_lse"].default,
        negative_slope: float = PARAMETERS["negative_slope"].default,
    ) -> None:
        """Take the sizes, and the settings of the attention.

        Args:
            region_size: Number of stored features of a region, >= 1.
            vocabulary_size: Number of words, >= 1.
            embedding_size: Dimensions of the vectors of regions and words, >= 1.
            word_size: Dimensions of a word embedding, >= 1.
            cross_attention: ``t2i``: each word attends to the regions; ``i2t``: each region attends to the words.
            raw_feature_norm: A key of ``NORMS``.
            aggregation: A key of ``AGGREGATIONS``.
            lambda_softmax: Inverse temperature of the attention, > 0; a tensor of K numbers for K stacked models.
            lambda_lse: Sharpness of ``lse``, > 0; a tensor of K numbers for K stacked models.
            negative_slope: Factor of a clipping norm on negative s, >= 0.
        """
        super().__init__(region_size, vocabulary_size, embedding_size, word_size)
        self.cross_attention, self.raw_feature_norm, self.aggregation = cross_attention, raw_feature_norm, aggregation
        self.lambda_softmax, self.lambda_lse, self.negative_slope = lambda_softmax, lambda_lse, negative_slope

    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """Return the similarity of each image to each caption, (I, C), or (K, I, C) of stacked models.

        All stacked models have equally many images.
        """
        order = captions.lengths.argsort(dim=-1, descending=True, stable=True)
        budget, columns = _Budget(KEPT), []
        for places in order.split(GROUP, dim=-1):
            words = chosen(captions, places)
            if self.cross_attention == "t2i":
                columns.append(self._over_blocks(images, words, budget))
            else:
                columns.append(self._over_blocks(words, images, budget).mT)
        back = order.argsort(dim=-1).to(columns[0].device)
        similarity = torch.cat(columns, dim=-1)
        return similarity.gather(-1, back.expand(*similarity.shape[:-2], -1)[..., None, :].expand_as(similarity))

    def _over_blocks(self, contexts: Sets, queries: Sets, budget: "_Budget") -> Tensor:
        """Return the similarity of each context to each query, (..., X, Y), a block of contexts at a time."""
        models = max(contexts.vectors.shape[:-3].numel(), queries.vectors.shape[:-3].numel())
        per_context = models * contexts.vectors.shape[-2] * queries.vectors.shape[-3:-1].numel()
        rows = max(1, BLOCK // per_context)
        blocks = zip(contexts.vectors.split(rows, -3), contexts.inside.split(rows, -2), strict=True)
        return torch.cat([self._block(*block, queries, budget.allows(rows * per_context)) for block in blocks], dim=-2)

    def _block(self, vectors: Tensor, inside: Tensor, queries: Sets, keeps: bool) -> Tensor:
        arguments = vectors, inside, queries.vectors, queries.inside
        if keeps or not torch.is_grad_enabled():
            return self._compare_block(*arguments)
        again: Tensor = checkpoint(self._compare_block, *arguments, use_reentrant=False, preserve_rng_state=False)
        return again

    def _compare_block(self, contexts: Tensor, in_context: Tensor, queries: Tensor, in_query: Tensor) -> Tensor:
        """Return the similarities (..., X, Y) of contexts (..., X, A, E) to queries (..., Y, B, E)."""
        flat = contexts.flatten(-3, -2) @ queries.flatten(-3, -2).mT
        scores = flat.unflatten(-1, queries.shape[-3:-1]).unflatten(-3, contexts.shape[-3:-1])
        normalised = NORMS[self.raw_feature_norm](scores, in_query[..., None, None, :, :], self.negative_slope)
        attended = normalised * _over(self.lambda_softmax, scores)
        weights = attended.masked_fill(~in_context[..., None, None], -torch.inf).softmax(-3)
        products = (weights * scores).sum(-3)
        gram = contexts @ contexts.mT
        lengths = (weights * (gram @ weights.flatten(-2)).view_as(weights)).sum(-3)
        cosines = products / lengths.clamp(min=SMALL**2).sqrt()
        return AGGREGATIONS[self.aggregation](cosines, in_query[..., None, :, :], _over(self.lambda_lse, cosines))


class _Budget:
    """Counts how many numbers may still be kept for the backward pass."""

    def __init__(self, numbers: int) -> None:
        self._left = numbers

    def allows(self, numbers: int) -> bool:
        """Take some numbers from the budget, and say whether the budget was large enough."""
        self._left -= numbers
        return self._left >= 0


def chosen(sets: Sets, places: Tensor) -> Sets:
    """Return the sets at places (N,), or (K, N) of stacked sets, padded to the largest of them."""
    lengths = sets.lengths.gather(-1, places)
    longest = int(lengths.max())
    vectors = sets.vectors[..., :longest, :]
    index = places.to(vectors.device).expand(*vectors.shape[:-3], -1)[..., None, None]
    return Sets(vectors.gather(-3, index.expand(*index.shape[:-2], *vectors.shape[-2:])), lengths)


def _over(number: float | Tensor, values: Tensor) -> float | Tensor:
    """Return a number, or a tensor (K,) of numbers in a shape that broadcasts over values (K, ...)."""
    return number.view(-1, *[1] * (values.dim() - 1)) if isinstance(number, Tensor) else number


Norm = Callable[[Tensor, Tensor, float], Tensor]
"""Function of the scores (..., X, A, Y, B), 0 outside of the sets, the mask of the b, and the negative slope -> u."""

NORMS: dict[str, Norm] = {
    "clipped_l2norm": lambda scores, inside, slope: normalize(leaky_relu(scores, slope), dim=-1, eps=SMALL),
    "l2norm": lambda scores, inside, slope: normalize(scores, dim=-1, eps=SMALL),
    "clipped_l1norm": lambda scores, inside, slope: normalize(leaky_relu(scores, slope), p=1.0, dim=-1, eps=SMALL),
    "l1norm": lambda scores, inside, slope: normalize(scores, p=1.0, dim=-1, eps=SMALL),
    "clipped": lambda scores, inside, slope: leaky_relu(scores, slope),
    "softmax": lambda scores, inside, slope: scores.masked_fill(~inside, -torch.inf).softmax(-1),
    "no_norm": lambda scores, inside, slope: scores,
}
"""Name in the published code -> norm from s to u; the published ``l1norm`` fails, as it calls a missing function."""


AGGREGATIONS: dict[str, Callable[[Tensor, Tensor, float | Tensor], Tensor]] = {
    "lse": lambda scores, inside, sharpness: (
        (scores * sharpness).masked_fill(~inside, -torch.inf).logsumexp(-1, keepdim=True) / sharpness
    ).squeeze(-1),
    "mean": lambda scores, inside, _: scores.masked_fill(~inside, 0.0).sum(-1) / inside.sum(-1),
    "max": lambda scores, inside, _: scores.masked_fill(~inside, -torch.inf).amax(-1),
    "sum": lambda scores, inside, _: scores.masked_fill(~inside, 0.0).sum(-1),
}
"""Name -> function from the scores of a query's members (..., X, Y, B) to a similarity (..., X, Y)."""
