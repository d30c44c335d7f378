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
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize
from torch.utils.checkpoint import checkpoint

from trainables.model_parameters import GSMN_PARTS, MODEL_TABLE
from trainables.models.scan import SMALL, RegionWordModel
from trainables.models.scan import chosen as chosen_sets
from trainables.representations import CaptionInputs, Captions, ImageInputs, Sets

PARAMETERS = MODEL_TABLE["gsmn"].parameters

BLOCKS = GSMN_PARTS
"""Parts of a vector whose cosines are a matching vector."""

KERNELS, KERNEL_SIZE = 8, 4
"""Linear maps of a graph convolution, and the numbers that each gives."""

UNDERFLOW = 207.9
"""Exponent x beyond which exp(-x / 2) is 0 in float32."""

GROUP = 8
"""Captions in a block of pairs, which are padded to a common length."""

AT_A_TIME = 1 << 16
"""Products of a word with a region in a block of pairs, each of which has ``BLOCKS`` parts."""


class GSMN(RegionWordModel):
    """Images as unit vectors of their regions with the centres of their boxes, captions as unit vectors of words."""

    quick_pairs = 20_000

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
        # A block of captions of the mean length has about as many products as are compared at a time.
        rows = max(1, AT_A_TIME * len(order) // (GROUP * images.vectors.shape[1] * max(1, int(captions.lengths.sum()))))
        geometry = self.kernels(images.vectors[..., -2:], images.inside).permute(0, 3, 2, 1)
        if not self.propagates:
            geometry = geometry.sum(2, keepdim=True)
        size = self.image_projection.out_features
        parts = zip(images.vectors[..., :size].split(rows), images.inside.split(rows), strict=True)
        blocks = [_Side.of(*part).members_first() for part in parts]
        found = []
        for places in order.split(GROUP):
            group = chosen_sets(captions, places)
            words = _Side.of(group.vectors[..., :size], group.inside)
            neighbours = self._neighbours(group) if self.propagates else None
            pairs = zip(blocks, geometry.split(rows), strict=True)
            found.append(torch.cat([self._block(block, words, part, neighbours) for block, part in pairs], dim=1))
        return torch.cat(found)[order.argsort().to(found[0].device)].mT

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

    def _block(self, regions: "_Side", words: "_Side", geometry: Tensor, neighbours: Tensor | None) -> Tensor:
        """Return the similarities (Y, X) of captions to images."""
        products = _Products.apply(*regions, *words, self.lambda_softmax)
        lengths = words.lengths[..., None], regions.lengths.mT[:, None]
        arguments = products, lengths, regions.inside, words.inside, geometry, neighbours
        if not torch.is_grad_enabled():
            return self._scored(*arguments)
        # The scores of nodes take several times the memory of the products, and a tenth of the time.
        scored: Tensor = checkpoint(self._scored, *arguments, use_reentrant=False, preserve_rng_state=False)
        return scored

    def _scored(
        self,
        products: tuple[Tensor, Tensor, Tensor, Tensor],
        lengths: tuple[Tensor, Tensor],
        in_image: Tensor,
        in_caption: Tensor,
        geometry: Tensor,
        neighbours: Tensor | None,
    ) -> Tensor:
        """Return the similarities (Y, X) of captions to images, of the products of ``_Products``."""
        of_words = _cosines(*products[:2], lengths[0])
        of_regions = _cosines(*products[2:], lengths[1]).permute(3, 0, 1, 2)
        if neighbours is not None:
            of_words = neighbours @ of_words
        textual = self.words_graph(self.words_graph.convolve(of_words.flatten(1)[None])).view_as(of_words[0])
        mapped = self.regions_graph.convolve(of_regions.flatten(2)).view(len(geometry), KERNELS, -1, in_image.shape[1])
        mapped = mapped @ geometry if self.propagates else mapped * geometry
        nodes = mapped.view(len(geometry), KERNELS * KERNEL_SIZE, -1)
        visual = self.regions_graph(nodes).view(len(geometry), -1, in_image.shape[1])
        textual = textual.masked_fill(~in_caption[..., None], 0.0).sum(1) / in_caption.sum(1)[:, None]
        return textual + (visual.masked_fill(~in_image[:, None], 0.0).sum(2) / in_image.sum(1)[:, None]).mT


class _Side(NamedTuple):
    """The sets of one side of a block of pairs: N sets of M members."""

    parts: Tensor
    """The parts of vectors, each contiguous, (BLOCKS, N, M, E / BLOCKS)."""
    grams: Tensor
    """Products of a set's members, part by part, (N, BLOCKS * M, M)."""
    halves: Tensor
    """Those of members k <= k', doubled where k < k', (N, BLOCKS, M (M + 1) / 2); without a gradient."""
    inside: Tensor
    """Which members there are, bool, (N, M)."""
    lengths: Tensor
    """Lengths of the parts, (BLOCKS, N, M)."""

    @classmethod
    def of(cls, vectors: Tensor, inside: Tensor) -> "_Side":
        """Take vectors (N, M, E)."""
        parts = vectors.unflatten(-1, (BLOCKS, -1)).transpose(1, 2)
        grams = parts @ parts.mT
        above, below = torch.triu_indices(*grams.shape[-2:], device=vectors.device)
        halves = grams.detach()[..., above, below] * torch.where(above == below, 1.0, 2.0).to(vectors)
        parts = parts.transpose(0, 1).contiguous()
        return cls(parts, grams.flatten(1, 2), halves, inside, parts.norm(dim=-1))

    def members_first(self) -> "_Side":
        """Return the same with parts of (BLOCKS, M, N, E / BLOCKS)."""
        return self._replace(parts=self.parts.transpose(1, 2).contiguous())


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
        """Map matching vectors (N, BLOCKS, nodes) to (N, KERNELS * KERNEL_SIZE, nodes), one kernel after the other."""
        return _map(self.weight, self.bias, matching)

    def forward(self, nodes: Tensor) -> Tensor:
        """Return the scores of nodes (N, KERNELS * KERNEL_SIZE, nodes), (N, 1, nodes)."""
        scores: Tensor = self.out(self.hidden(nodes).tanh())
        return scores


class _WeightNormed(nn.Module):
    """A linear map whose weights are v g / |v|, row by row [Salimans and Kingma, arXiv:1602.07868]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        drawn = nn.Linear(inputs, outputs)
        self.direction, self.bias = nn.Parameter(drawn.weight.detach()), nn.Parameter(drawn.bias.detach())
        self.length = nn.Parameter(self.direction.detach().norm(dim=1, keepdim=True))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (N, inputs, nodes) to (N, outputs, nodes)."""
        return _map(self.direction * (self.length / self.direction.norm(dim=1, keepdim=True)), self.bias, inputs)


def _map(weight: Tensor, bias: Tensor | None, inputs: Tensor) -> Tensor:
    """Return the linear map (outputs, inputs) of inputs (N, inputs, nodes)."""
    weights = weight.expand(len(inputs), -1, -1)
    return weights @ inputs if bias is None else torch.baddbmm(bias[:, None], weights, inputs)


class _Kernels(nn.Module):
    """Gaussian kernels of the polar coordinates between regions, normalised over the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.angle = nn.Parameter(torch.empty(KERNELS).uniform_(-math.pi, math.pi))
        self.distance, self.distance_width, self.angle_width = (nn.Parameter(torch.rand(KERNELS)) for _ in range(3))

    def forward(self, centres: Tensor, inside: Tensor) -> Tensor:
        """Return g of region i and neighbour j, (I, R, R, KERNELS), for centres (I, R, 2); 0 outside of an image."""
        across, down = (centres[:, None, :, None] - centres[:, None, None]).unbind(-1)
        # The square root has no derivative at 0, and centres have no gradient. The angle is that of the code.
        distance, angle = (across**2 + down**2).sqrt(), torch.atan2(across, down)
        kernels = self.angle, self.distance, self.angle_width, self.distance_width
        m_angle, m_distance, s_angle, s_distance = (kernel[:, None, None] for kernel in kernels)
        turned = (angle - m_angle).abs()
        turned = torch.minimum(turned, (2 * math.pi - turned).abs())
        exponent = (distance - m_distance) ** 2 / (1e-14 + s_distance**2) + turned**2 / (1e-14 + s_angle**2)
        # Where all kernels are 0 in float32, e.g. because they are narrow, the code divides by 0 and replaces NaN by 0.
        is_far = (exponent.amin(1, keepdim=True) > UNDERFLOW) | ~inside[:, None, None]
        return (-exponent / 2).softmax(1).masked_fill(is_far, 0.0).movedim(1, -1)


def _adjacency(heads: Tensor) -> Tensor:
    """Return which words are joined, (Y, T, T), 0 or 1: each with itself, its head, and the words whose head it is."""
    count = heads.shape[-1]
    joined = nn.functional.one_hot(heads.clamp(0, count - 1), count)
    itself = torch.eye(count, dtype=joined.dtype, device=heads.device)
    return (joined + joined.mT + itself).clamp(max=1)


def _attend(products: Tensor, in_image: Tensor, in_caption: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """Return the attention of words on regions, and of regions on words, from products (Y, T, R, X), in that shape."""
    clipped = leaky_relu(products, 0.1)
    of_words, of_regions = (
        clipped * (sharpness / clipped.square().sum(side, keepdim=True).clamp(min=SMALL**2).sqrt()) for side in (1, 2)
    )
    # A caption's padding would have weights of nothing alone, which is NaN.
    of_words = of_words.masked_fill(~in_image.mT, -torch.inf).softmax(2)
    of_regions = of_regions.masked_fill(~in_caption[..., None, None], -torch.inf).softmax(1)
    return of_words, of_regions


def _cosines(products: Tensor, squares: Tensor, own: Tensor) -> Tensor:
    # The derivative of a square root at 0 is infinite; a length of 0 has products of 0 as well.
    lengths = squares.clamp(min=SMALL**2).sqrt()
    return products / (own * lengths).clamp(min=SMALL)


class _Products(torch.autograd.Function):
    """The products that the cosines of matching vectors need, for a block of pairs.

    The products of words with regions are computed again in the backward pass, part by part. The lengths of what was
    attended to are products of matrices as well, for the members k of a context and all queries at once:

        |c_b|^2 = sum over k <= k' of (alpha_k alpha_k') (G_b,kk' + [k < k'] G_b,k'k)
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q_b . c_b and |c_b|^2 of words, (BLOCKS, Y, T, X), and of regions, (BLOCKS, Y, R, X).

        Arguments are a ``_Side`` of X images, members first, one of Y captions, and the sharpness.
        """
        images, captions, sharpness = _Side(*arguments[:5]), _Side(*arguments[5:10]), arguments[10]
        ctx.save_for_backward(*arguments[:10])
        ctx.sharpness = sharpness
        products = _between(images, captions)
        on_regions, on_words = _attend(products.sum(0), images.inside, captions.inside, sharpness)
        of_words = on_words.new_empty(*products.shape[:3], products.shape[4])
        of_regions = on_words.new_empty(*products.shape[:2], *products.shape[3:])
        weighted = torch.empty_like(on_regions)
        for part, own in enumerate(products):
            torch.sum(torch.mul(on_regions, own, out=weighted), 2, out=of_words[part])
            torch.sum(torch.mul(on_words, own, out=weighted), 1, out=of_regions[part])
        word_squares = _squares(_by_image(on_regions), images.halves).view(-1, BLOCKS, *on_words.shape[:2])
        region_squares = _squares(on_words.flatten(2), captions.halves).view(-1, BLOCKS, *on_words.shape[2:])
        word_squares, region_squares = word_squares.permute(1, 2, 3, 0), region_squares.transpose(0, 1)
        return of_words, word_squares.contiguous(), of_regions, region_squares.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the products again, then the gradients of the attention, and of regions, words and their products."""
        images, captions = _Side(*ctx.saved_tensors[:5]), _Side(*ctx.saved_tensors[5:])
        products = _between(images, captions)
        with torch.enable_grad():
            leaf = products.sum(0).requires_grad_()
            attention = _attend(leaf, images.inside, captions.inside, ctx.sharpness)
        on_regions, on_words = (part.detach() for part in attention)
        of_words, of_regions = gradients[0][..., None, :], gradients[2][:, :, None]
        word_squares, region_squares = gradients[1].permute(3, 0, 1, 2).flatten(2), gradients[3].transpose(0, 1)
        by_image, image_grams = _squares_backward(_by_image(on_regions), images.grams, word_squares)
        by_caption, caption_grams = _squares_backward(on_words.flatten(2), captions.grams, region_squares.flatten(2))
        by_words = by_image.unflatten(2, on_words.shape[:2]).permute(2, 3, 1, 0).contiguous()
        by_regions = by_caption.view_as(on_words)
        for part, own in enumerate(products):
            by_words.addcmul_(of_words[part], own)
            by_regions.addcmul_(of_regions[part], own)
        (of_products,) = torch.autograd.grad(attention, leaf, [by_words, by_regions])
        whole = torch.empty_like(of_products)
        flat = whole.view(on_words.shape[:2].numel(), -1)
        of_images, of_captions = torch.empty_like(images.parts), torch.empty_like(captions.parts)
        for part in range(BLOCKS):
            torch.addcmul(of_products, on_regions, of_words[part], out=whole).addcmul_(on_words, of_regions[part])
            torch.mm(flat.mT, captions.parts[part].flatten(0, 1), out=of_images[part].flatten(0, 1))
            torch.mm(flat, images.parts[part].flatten(0, 1), out=of_captions[part].flatten(0, 1))
        return of_images, image_grams, None, None, None, of_captions, caption_grams, None, None, None, None


def _between(images: _Side, captions: _Side) -> Tensor:
    """Return the products of words with regions, part by part, (BLOCKS, Y, T, R, X)."""
    products = captions.parts.flatten(1, 2) @ images.parts.flatten(1, 2).mT
    return products.view(*captions.parts.shape[:3], *images.parts.shape[1:3])


def _squares(attention: Tensor, halves: Tensor) -> Tensor:
    """Return |c_b|^2, (N, BLOCKS, Q), of attention (N, M, Q) on M members with the ``halves`` of their products."""
    contexts, count, queries = attention.shape
    both = attention.new_empty(contexts, halves.shape[-1], queries)
    start = 0
    for member in range(count):
        stop = start + count - member
        torch.mul(attention[:, member, None], attention[:, member:], out=both[:, start:stop])
        start = stop
    return halves @ both


def _squares_backward(attention: Tensor, grams: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of attention (N, M, Q) and of ``grams``, of that of the squares (N, BLOCKS, Q)."""
    contexts, count, queries = attention.shape
    weighted = attention.new_empty(contexts, BLOCKS, count, queries)
    torch.mul(gradient.contiguous()[:, :, None], attention[:, None], out=weighted)
    flat = weighted.flatten(1, 2)
    return (grams.mT @ flat).mul_(2), flat @ attention.mT


def _by_image(attention: Tensor) -> Tensor:
    """Return attention (Y, T, R, X) as (X, R, Y T)."""
    return attention.permute(3, 2, 0, 1).flatten(2)
