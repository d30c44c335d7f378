"""GSMN: graphs of words and of regions, whose nodes hold how well they match the other side.

Regions and words are encoded as in SCAN. Each word attends to the regions, and each region to the words (lambda is
``lambda_softmax``). A node's matching vector x has the cosines of BLOCKS equal parts of the node q and of what it
attended to, c, by ``block_products``. The matching vectors pass through a graph convolution of KERNELS linear maps W_k
(16 -> 4) to h, and a perceptron. The score of a side is the mean over its nodes, and the similarity is the sum of both
sides: a number without bounds.

    words     h_i = concat_k W_k sum_j w_ij x_j     dense: w_ij = softmax_j lambda u_i . u_j, for words u
                                                    sparse: w_i = a_i * w_i / |a_i * w_i|, for the parse's adjacency a
    regions   h_i = concat_k W_k sum_j g_ijk x_j    g: Gaussian kernels of the distance and the angle between the boxes'
                                                    centres, normalised over the kernels

That is ``graph: paper``. The published code sums copies of the node itself in place of its neighbours: with ``graph:
published`` x_j is x_i. The weights of words then sum to 1 and vanish, dense or sparse, and no parse is read. There the
maps of words have biases.

The scores of nodes are computed again in the backward pass, a block of pairs at a time.

References:
    [Liu2020] Liu et al., Graph Structured Network for Image-Text Matching. arXiv:2004.00277; code
        CrossmodalGroup/GSMN@dcc0f61, graph_model.py and layers.py.
"""

import math
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from trainables.model_parameters import MODEL_TABLE
from trainables.models.block_products import BLOCKS, Side, block_products
from trainables.models.scan import SMALL, RegionWordModel
from trainables.representations import CaptionInputs, Captions, ImageInputs, Sets

PARAMETERS = MODEL_TABLE["gsmn"].parameters

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
        regions = [Side.of(*part).members_first() for part in parts]
        groups = _groups(captions, order)
        words = [Side.of(group.vectors[..., :size], group.inside) for group in groups]
        neighbours = [self._neighbours(group) if self.propagates else None for group in groups]
        blocks = list(product(zip(regions, geometry.split(rows), strict=True), zip(words, neighbours, strict=True)))
        found = [
            self._of_block(matched, *of_images, *of_captions)
            for matched, (of_images, of_captions) in zip(
                block_products(regions, words, self.lambda_softmax), blocks, strict=True
            )
        ]
        columns = [torch.cat(found[start : start + len(words)]) for start in range(0, len(found), len(words))]
        return torch.cat(columns, dim=1)[order.argsort().to(found[0].device)].mT

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

    def _of_block(
        self, products: tuple[Tensor, ...], regions: Side, geometry: Tensor, words: Side, neighbours: Tensor | None
    ) -> Tensor:
        """Return the similarities (Y, X) of captions to images."""
        lengths = words.lengths[..., None], regions.lengths.mT[:, None]
        arguments = products, lengths, regions.inside, words.inside, geometry, neighbours
        if not torch.is_grad_enabled():
            return self._scored(*arguments)
        # The scores of nodes take several times the memory of the products, and a tenth of the time.
        scored: Tensor = checkpoint(self._scored, *arguments, use_reentrant=False, preserve_rng_state=False)
        return scored

    def _scored(
        self,
        products: tuple[Tensor, ...],
        lengths: tuple[Tensor, Tensor],
        in_image: Tensor,
        in_caption: Tensor,
        geometry: Tensor,
        neighbours: Tensor | None,
    ) -> Tensor:
        """Return the similarities (Y, X) of captions to images, of the block's products."""
        words, word_squares, regions, region_squares = products
        of_words = _cosines(words, word_squares, lengths[0])
        of_regions = _cosines(regions, region_squares, lengths[1])
        if neighbours is not None:
            of_words = neighbours @ of_words
        textual = self.words_graph(self.words_graph.convolve(of_words.flatten(1)[None])).view_as(of_words[0])
        visual = self._of_neighbours(of_regions, geometry) if self.propagates else self._of_copies(of_regions, geometry)
        textual = textual.masked_fill(~in_caption[..., None], 0.0).sum(1) / in_caption.sum(1)[:, None]
        return textual + visual.masked_fill(~in_image.mT, 0.0).sum(1) / in_image.sum(1)

    def _of_copies(self, matching: Tensor, geometry: Tensor) -> Tensor:
        """Return the scores of regions (Y, R, X), of matching vectors (BLOCKS, Y, R, X), for the published graph."""
        mapped = self.regions_graph.convolve(matching.flatten(1)[None]).view(KERNELS, KERNEL_SIZE, *matching.shape[1:])
        factors = geometry.permute(1, 2, 3, 0).contiguous()[:, :, None]
        scores: Tensor = self.regions_graph((mapped * factors).view(1, KERNELS * KERNEL_SIZE, -1))
        return scores.view_as(matching[0])

    def _of_neighbours(self, matching: Tensor, geometry: Tensor) -> Tensor:
        """Return the scores of regions (Y, R, X), of matching vectors (BLOCKS, Y, R, X), for the graph of the paper."""
        images, regions = len(geometry), matching.shape[2]
        mapped = self.regions_graph.convolve(matching.permute(3, 0, 1, 2).flatten(2))
        nodes = (mapped.view(images, KERNELS, -1, regions) @ geometry).view(images, KERNELS * KERNEL_SIZE, -1)
        scores: Tensor = self.regions_graph(nodes)
        return scores.view(images, -1, regions).permute(1, 2, 0)


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


def _groups(captions: Sets, order: Tensor) -> list[Sets]:
    """Return captions in an order, a group at a time, each without the padding of all its members."""
    vectors = captions.vectors.index_select(0, order.to(captions.vectors.device))
    lengths = captions.lengths[order].split(GROUP)
    parts = zip(vectors.split(GROUP), lengths, strict=True)
    return [Sets(part[:, : int(counts.max())], counts) for part, counts in parts]


def _cosines(products: Tensor, squares: Tensor, own: Tensor) -> Tensor:
    # The derivative of a square root at 0 is infinite; a length of 0 has products of 0 as well.
    lengths = squares.clamp(min=SMALL**2).sqrt()
    return products / (own * lengths).clamp(min=SMALL)
