"""GSMN: graphs of words and of regions, whose nodes hold how well they match the other side.

Regions and words are encoded as in SCAN. Each word attends to the regions, and each region to the words (lambda is
``lambda_softmax``). A node's matching vector x has the cosines of BLOCKS equal parts of the node q and of what it
attended to, c. Nothing of the size of c is computed, because the cosines need products alone: with s_b the products of
a part of q with that part of the other side, and G_b the products of that part of the other side with itself,

    q_b . c_b = sum_k alpha_k s_bk        |c_b|^2 = sum_kk' alpha_k G_b,kk' alpha_k'

The matching vectors pass through a graph convolution of KERNELS linear maps W_k (16 -> 4) to h, and a perceptron. The
score of a side is the mean over its nodes, and the similarity is the sum of both sides: a number without bounds.

    words     h_i = concat_k W_k sum_j w_ij x_j     dense: w_ij = softmax_j lambda u_i . u_j, for words u
                                                    sparse: w_i = a_i * w_i / |a_i * w_i|, for the parse's adjacency a
    regions   h_i = concat_k W_k sum_j g_ijk x_j    g: Gaussian kernels of the distance and the angle between the boxes'
                                                    centres, normalised over the kernels

That is ``graph: paper``. The published code sums copies of the node itself in place of its neighbours: with ``graph:
published`` x_j is x_i. The weights of words then sum to 1 and vanish, dense or sparse, and no parse is read. There the
maps of words have biases.

Each block of pairs is computed again in the backward pass, so that memory grows with the nodes and not with pairs of
nodes.

References:
    [Liu2020] Liu et al., Graph Structured Network for Image-Text Matching. arXiv:2004.00277; code
        CrossmodalGroup/GSMN@dcc0f61, graph_model.py and layers.py.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear, normalize
from torch.utils.checkpoint import checkpoint

from trainables.model_parameters import GSMN_PARTS, MODEL_TABLE
from trainables.models.scan import GROUP, SMALL, RegionWordModel
from trainables.models.scan import chosen as chosen_sets
from trainables.representations import CaptionInputs, Captions, ImageInputs, Sets

PARAMETERS = MODEL_TABLE["gsmn"].parameters

BLOCKS = GSMN_PARTS
"""Parts of a vector whose cosines are a matching vector."""

KERNELS, KERNEL_SIZE = 8, 4
"""Linear maps of a graph convolution, and the numbers that each gives."""

UNDERFLOW = 207.9
"""Exponent x beyond which exp(-x / 2) is 0 in float32."""

AT_A_TIME = 1 << 17
"""Products of a word with a region in a block of pairs, each of which has ``BLOCKS`` parts."""


class GSMN(RegionWordModel):
    """Images as unit vectors of their regions with the centres of their boxes, captions as unit vectors of words."""

    def __init__(
        self,
        region_size: int,
        vocabulary_size: int,
        embedding_size: int,
        word_size: int,
        *,
        graph: str = PARAMETERS["graph"].default,
        edges: str = PARAMETERS["edges"].default,
        lambda_softmax: float = PARAMETERS["lambda_softmax"].default,
    ) -> None:
        """Take the sizes, of which ``embedding_size`` is a multiple of ``BLOCKS``, and the kind of graph.

        Args:
            region_size: Number of stored features of a region, >= 1.
            vocabulary_size: Number of words, >= 1.
            embedding_size: Dimensions of the vectors of regions and words.
            word_size: Dimensions of a word embedding, >= 1.
            graph: ``published``: each node sees copies of itself, as in the code; ``paper``: its neighbours.
            edges: Words are joined with all words (``dense``), or as in their parse (``sparse``).
            lambda_softmax: Inverse temperature of the attention, > 0.
        """
        super().__init__(region_size, vocabulary_size, embedding_size, word_size)
        self.propagates, self.is_sparse = graph == "paper", edges == "sparse"
        self.lambda_softmax = lambda_softmax
        self.words_graph = _Scorer(has_bias=not self.propagates)
        self.regions_graph = _Scorer(has_bias=False)
        self.kernels = _Kernels()

    @property
    def reads_parses(self) -> bool:
        """Whether the graph of words depends on a parse."""
        return self.propagates and self.is_sparse

    def encode_images(self, inputs: ImageInputs) -> Sets:
        """Map regions (I, R, D) and boxes (I, R, 4) to sets of (I, R, embedding_size + 2): vectors, then centres."""
        parts = cast("dict[str, Any]", inputs)
        regions, boxes = super().encode_images(parts["features"]), parts["boxes"]
        centres = (boxes[..., :2] + boxes[..., 2:]) / 2
        return Sets(torch.cat([regions.vectors, centres.to(regions.vectors)], dim=-1), regions.lengths)

    def encode_captions(self, captions: CaptionInputs, lengths: Tensor) -> Sets:
        """Map captions (C, T) to sets of words (C, T, embedding_size), with the place of each word's head at the end.

        Heads are there where the graph reads them.
        """
        tokens = captions.tokens if isinstance(captions, Captions) else captions
        words = super().encode_captions(tokens, lengths)
        if not self.reads_parses:
            return words
        heads = cast("Captions", captions).of_tokens["heads"]
        return Sets(torch.cat([words.vectors, heads[..., None].to(words.vectors)], dim=-1), lengths)

    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """Return the similarity of each image to each caption, (I, C)."""
        order = captions.lengths.argsort(descending=True, stable=True)
        weights = self.kernels(images.vectors[..., -2:], images.inside)
        columns = []
        for places in order.split(GROUP):
            group = chosen_sets(captions, places)
            rows = max(1, AT_A_TIME // (images.vectors.shape[1] * group.inside.numel()))
            neighbours = self._neighbours(group) if self.propagates else None
            parts = zip(images.vectors.split(rows), images.inside.split(rows), weights.split(rows), strict=True)
            columns.append(torch.cat([self._block(*part, group, neighbours) for part in parts]))
        return torch.cat(columns, dim=1)[:, order.argsort().to(columns[0].device)]

    def _neighbours(self, words: Sets) -> Tensor:
        """Return the weights w of words on words, (Y, T, T), 0 outside of the captions."""
        size = self.image_projection.out_features
        vectors, inside = words.vectors[..., :size], words.inside
        products = vectors @ vectors.mT * self.lambda_softmax
        weights = products.masked_fill(~inside[:, None], -torch.inf).softmax(-1)
        if self.is_sparse:
            adjacent = _adjacency(words.vectors[..., size].long())
            weights = normalize(weights * adjacent, dim=-1, eps=SMALL)
        return weights * inside[..., None]

    def _block(
        self, regions: Tensor, in_image: Tensor, geometry: Tensor, words: Sets, neighbours: Tensor | None
    ) -> Tensor:
        """Return the similarities (X, Y) of images to captions."""
        size = self.image_projection.out_features
        vectors, others = regions[..., :size], words.vectors[..., :size]
        products = _Products.apply(_parts(vectors), _parts(others), in_image, words.inside, self.lambda_softmax)
        arguments = products, vectors, others, in_image, words.inside, geometry, neighbours
        if not torch.is_grad_enabled():
            return self._scored(*arguments)
        # The scores of nodes take several times the memory of the products, and a twentieth of the time.
        scored: Tensor = checkpoint(self._scored, *arguments, use_reentrant=False, preserve_rng_state=False)
        return scored

    def _scored(
        self,
        products: tuple[Tensor, Tensor, Tensor, Tensor],
        regions: Tensor,
        words: Tensor,
        in_image: Tensor,
        in_caption: Tensor,
        geometry: Tensor,
        neighbours: Tensor | None,
    ) -> Tensor:
        """Return the similarities (X, Y) of images to captions, of the products of ``_Products``."""
        of_words = _cosines(*products[:2], words.unflatten(-1, (BLOCKS, -1)).norm(dim=-1)[None])
        of_regions = _cosines(*products[2:], regions.unflatten(-1, (BLOCKS, -1)).norm(dim=-1)[:, None])
        if neighbours is not None:
            of_words = neighbours @ of_words
        textual = self.words_graph(self.words_graph.convolve(of_words), in_caption)
        mapped = self.regions_graph.convolve(of_regions).unflatten(-1, (KERNELS, KERNEL_SIZE))
        if self.propagates:
            mapped = torch.einsum("xijk,xyjkn->xyikn", geometry, mapped)
        else:
            mapped = mapped * geometry.sum(2)[:, None, ..., None]
        visual = self.regions_graph(mapped.flatten(-2), in_image[:, None])
        return textual + visual


class _Scorer(nn.Module):
    """The maps of a graph convolution, and the perceptron that makes a score of each node."""

    def __init__(self, *, has_bias: bool) -> None:
        super().__init__()
        maps = [nn.Linear(BLOCKS, KERNEL_SIZE, bias=has_bias) for _ in range(KERNELS)]
        self.weight = nn.Parameter(torch.cat([part.weight.detach() for part in maps]))
        self.bias = nn.Parameter(torch.cat([part.bias.detach() for part in maps])) if has_bias else None
        self.hidden = _WeightNormed(KERNELS * KERNEL_SIZE, KERNELS * KERNEL_SIZE)
        self.out = _WeightNormed(KERNELS * KERNEL_SIZE, 1)

    def convolve(self, matching: Tensor) -> Tensor:
        """Map matching vectors (..., BLOCKS) to (..., KERNELS * KERNEL_SIZE), one kernel after the other."""
        return linear(matching, self.weight, self.bias)

    def forward(self, nodes: Tensor, inside: Tensor) -> Tensor:
        """Return the mean score over the nodes (X, Y, N, ...) that are ``inside``, (X, Y)."""
        scores = self.out(self.hidden(nodes).tanh())[..., 0]
        return scores.masked_fill(~inside, 0.0).sum(-1) / inside.sum(-1)


class _WeightNormed(nn.Module):
    """A linear map whose weights are v g / |v|, row by row [Salimans and Kingma, arXiv:1602.07868]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        drawn = nn.Linear(inputs, outputs)
        self.direction, self.bias = nn.Parameter(drawn.weight.detach()), nn.Parameter(drawn.bias.detach())
        self.length = nn.Parameter(self.direction.detach().norm(dim=1, keepdim=True))

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.direction * (self.length / self.direction.norm(dim=1, keepdim=True)), self.bias)


class _Kernels(nn.Module):
    """Gaussian kernels of the polar coordinates between regions, normalised over the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.angle = nn.Parameter(torch.empty(KERNELS).uniform_(-math.pi, math.pi))
        self.distance, self.distance_width, self.angle_width = (nn.Parameter(torch.rand(KERNELS)) for _ in range(3))

    def forward(self, centres: Tensor, inside: Tensor) -> Tensor:
        """Return g of region i and neighbour j, (I, R, R, KERNELS), for centres (I, R, 2); 0 outside of an image."""
        across, down = (centres[:, :, None] - centres[:, None]).unbind(-1)
        # The square root has no derivative at 0, and centres have no gradient. The angle is that of the code.
        distance, angle = (across**2 + down**2).sqrt()[..., None], torch.atan2(across, down)[..., None]
        turned = (angle - self.angle).abs()
        turned = torch.minimum(turned, (2 * math.pi - turned).abs())
        exponent = (distance - self.distance) ** 2 / (1e-14 + self.distance_width**2)
        exponent = exponent + turned**2 / (1e-14 + self.angle_width**2)
        # Where all kernels are 0 in float32, e.g. because they are narrow, the code divides by 0 and replaces NaN by 0.
        is_far = (exponent.amin(-1, keepdim=True) > UNDERFLOW) | ~inside[:, None, :, None]
        return (-exponent / 2).softmax(-1).masked_fill(is_far, 0.0)


def _adjacency(heads: Tensor) -> Tensor:
    """Return which words are joined, (Y, T, T), 0 or 1: each with itself, its head, and the words whose head it is."""
    count = heads.shape[-1]
    joined = nn.functional.one_hot(heads.clamp(0, count - 1), count)
    itself = torch.eye(count, dtype=joined.dtype, device=heads.device)
    return (joined + joined.mT + itself).clamp(max=1)


def _attend(products: Tensor, in_image: Tensor, in_caption: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """Return the attention of words on regions, and of regions on words, from products (X, R, Y, T), in that shape."""
    clipped = leaky_relu(products, 0.1)
    of_words = normalize(clipped, dim=3, eps=SMALL) * sharpness
    of_regions = normalize(clipped, dim=1, eps=SMALL) * sharpness
    # A caption's padding would have weights of nothing alone, which is NaN.
    of_words = of_words.masked_fill(~in_image[:, :, None, None], -torch.inf).softmax(1)
    of_regions = of_regions.masked_fill(~in_caption, -torch.inf).softmax(3)
    return of_words, of_regions


def _cosines(products: Tensor, squares: Tensor, own: Tensor) -> Tensor:
    # The derivative of a square root at 0 is infinite; a length of 0 has products of 0 as well.
    lengths = squares.clamp(min=SMALL**2).sqrt()
    return products / (own * lengths).clamp(min=SMALL)


def _parts(vectors: Tensor) -> Tensor:
    """Return vectors (N, M, E) as their parts, (BLOCKS, N, M, E / BLOCKS), each part contiguous."""
    return vectors.unflatten(-1, (BLOCKS, -1)).permute(2, 0, 1, 3).contiguous()


class _Products(torch.autograd.Function):
    """The products that the cosines of matching vectors need, for a block of pairs.

    The products of words with regions are computed again in the backward pass, part by part. The lengths of what was
    attended to are products of matrices as well, for the members k of a context and all queries at once:

        |c_b|^2 = sum over k <= k' of (alpha_k alpha_k') (G_b,kk' + [k < k'] G_b,k'k)
    """

    @staticmethod
    def forward(
        ctx: Any, regions: Tensor, words: Tensor, in_image: Tensor, in_caption: Tensor, sharpness: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q_b . c_b and |c_b|^2 of words, (X, Y, T, BLOCKS), and of regions, (X, Y, R, BLOCKS).

        Regions are (BLOCKS, X, R, e), words (BLOCKS, Y, T, e).
        """
        ctx.save_for_backward(regions, words, in_image, in_caption)
        ctx.sharpness = sharpness
        images, count = regions.shape[1:3]
        captions, longest = words.shape[1:3]
        products = (regions.flatten(1, 2) @ words.flatten(1, 2).mT).view(BLOCKS, images, count, captions, longest)
        on_regions, on_words = _attend(products.sum(0), in_image, in_caption, sharpness)
        of_words = words.new_empty(BLOCKS, images, captions, longest)
        of_regions = words.new_empty(BLOCKS, images, count, captions)
        weighted = torch.empty_like(on_regions)
        for part, own in enumerate(products):
            torch.sum(torch.mul(on_regions, own, out=weighted), 1, out=of_words[part])
            torch.sum(torch.mul(on_words, own, out=weighted), 3, out=of_regions[part])
        word_squares = _squares(on_regions.flatten(2), regions).view(images, BLOCKS, captions, longest)
        region_squares = _squares(_by_caption(on_words), words).view(captions, BLOCKS, images, count)
        return (
            of_words.permute(1, 2, 3, 0).contiguous(),
            word_squares.permute(0, 2, 3, 1).contiguous(),
            of_regions.permute(1, 3, 2, 0).contiguous(),
            region_squares.permute(2, 0, 3, 1).contiguous(),
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Compute the products again, then the gradients of the attention, and of regions and words."""
        regions, words, in_image, in_caption = ctx.saved_tensors
        images, count = regions.shape[1:3]
        captions, longest = words.shape[1:3]
        of_words = gradients[0].permute(3, 0, 1, 2).contiguous()[:, :, None]
        of_regions = gradients[2].permute(3, 0, 2, 1).contiguous()[..., None]
        word_squares = gradients[1].permute(0, 3, 1, 2).flatten(2)
        region_squares = gradients[3].permute(1, 3, 0, 2).flatten(2)
        products = (regions.flatten(1, 2) @ words.flatten(1, 2).mT).view(BLOCKS, images, count, captions, longest)
        with torch.enable_grad():
            leaf = products.sum(0).requires_grad_()
            attention = _attend(leaf, in_image, in_caption, ctx.sharpness)
        on_regions, on_words = (part.detach() for part in attention)
        by_image, by_regions = _squares_backward(on_regions.flatten(2), regions, word_squares)
        by_caption, by_words = _squares_backward(_by_caption(on_words), words, region_squares)
        by_image, by_caption = by_image.view_as(on_regions), _by_image(by_caption, images)
        for part, own in enumerate(products):
            by_image.addcmul_(of_words[part], own)
            by_caption.addcmul_(of_regions[part], own)
        (of_products,) = torch.autograd.grad(attention, leaf, [by_image, by_caption])
        whole = torch.empty_like(of_products)
        flat = whole.view(images * count, captions * longest)
        for part in range(BLOCKS):
            torch.addcmul(of_products, on_regions, of_words[part], out=whole).addcmul_(on_words, of_regions[part])
            by_regions[part].flatten(0, 1).addmm_(flat, words[part].flatten(0, 1))
            by_words[part].flatten(0, 1).addmm_(flat.mT, regions[part].flatten(0, 1))
        return by_regions, by_words, None, None, None


def _squares(attention: Tensor, members: Tensor) -> Tensor:
    """Return |c_b|^2, (N, BLOCKS, Q), of attention (N, M, Q) on the parts (BLOCKS, N, M, e) of M members."""
    contexts, count, queries = attention.shape
    grams = (members @ members.mT).transpose(0, 1)
    both = attention.new_empty(contexts, count * (count + 1) // 2, queries)
    doubled, start = [], 0
    for member in range(count):
        stop = start + count - member
        torch.mul(attention[:, member, None], attention[:, member:], out=both[:, start:stop])
        doubled += [grams[..., member, member, None], 2 * grams[..., member, member + 1 :]]
        start = stop
    return torch.cat(doubled, -1) @ both


def _squares_backward(attention: Tensor, members: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of attention (N, M, Q) and members (BLOCKS, N, M, e), of that of their squares."""
    count = attention.shape[1]
    grams = (members @ members.mT).transpose(0, 1).flatten(1, 2)
    weighted = (2 * gradient[:, :, None] * attention[:, None]).flatten(1, 2)
    of_grams = (weighted @ attention.mT).unflatten(1, (BLOCKS, count)).transpose(0, 1)
    return grams.mT @ weighted, of_grams @ members


def _by_caption(attention: Tensor) -> Tensor:
    """Return attention (X, R, Y, T) as (Y, T, X R)."""
    return attention.permute(2, 3, 0, 1).flatten(2)


def _by_image(attention: Tensor, images: int) -> Tensor:
    """Return what ``_by_caption`` gave, (Y, T, X R), as (X, R, Y, T)."""
    return attention.unflatten(2, (images, -1)).permute(2, 3, 0, 1).contiguous()
