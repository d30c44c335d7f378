"""VSRN: regions that reason about each other for images, a GRU for captions, cosine between them.

The caption decoder of the original, a second loss on the image vector, is left out as in [Bleeker2022].

The image encoder makes one vector of regions by a linear map, four graph blocks and a GRU. A graph block adds to every
region a sum over all regions of its image, weighted by a learned affinity,

    A = theta(V) phi(V)^T,    V' = V + BatchNorm(W (A / R) g(V))

with V the regions (R, D) and theta, phi, g and W linear maps with bias; no softmax over A, no bottleneck. The batch
norm's weight and bias start at zero, so an untrained block is the identity.

The published code intends to scale each region to unit length, but reduces the axis of the regions instead of the axis
of the features. Each feature is divided by its length over the regions, so the regions of an image scale each other.
``region_norm="published"`` is this published behaviour. ``"features"`` normalises each region over its features, to a
root mean square of 1: unit length times sqrt(D). At unit length the GRU's inputs shrink with D and the GRU learns more
slowly (Flickr8k, 256 dimensions, NT-Xent, three epochs: val rsum 155 published, 158 unit length, 170 root mean square).

References:
    [Li2019] Li et al., Visual Semantic Reasoning for Image-Text Matching (VSRN), sections 3.1-3.2. arXiv:1909.02701;
        code KunpengLi1994/VSRN@777ae74.
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474; code MauritsBleeker/ecir-2022-reproducibility-bleeker@9800594, VSRN/model.py:213-269,
        VSRN/GCN_lib/Rs_GCN.py:25-77.
"""

from math import sqrt
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.data.length_profile import Lengths
from trainables.model_parameters import MODEL_TABLE
from trainables.models.gru import last_state
from trainables.models.retrieval_model import (
    RetrievalModel,
    batch_norm,
    computing_in_full,
    draw_projection,
    in_full,
    linear,
)
from trainables.models.vsepp import TextEncoder

PARAMETERS = MODEL_TABLE["vsrn"].parameters

BLOCKS = 4
"""Graph blocks one after the other [Li2019, section 3.1]."""


class GraphBlock(nn.Module):
    """One residual step of reasoning between the regions of an image."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.theta = nn.Linear(size, size)
        self.phi = nn.Linear(size, size)
        self.g = nn.Linear(size, size)
        self.w = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)
        nn.init.zeros_(self.norm.weight)
        nn.init.zeros_(self.norm.bias)

    def forward(self, regions: Tensor) -> Tensor:
        """Map regions (..., I, R, D) to the same shape; the batch norm's statistics are over images and regions."""
        affinity = linear(self.theta, regions) @ linear(self.phi, regions).mT / regions.shape[-2]
        gathered = linear(self.w, affinity @ linear(self.g, regions))
        reasoned = batch_norm(self.norm, gathered.flatten(-3, -2))
        return regions + reasoned.view_as(regions)


class RegionReasoning(nn.Module):
    """The image encoder of VSRN [Li2019], in the form of [Bleeker2022]: with batch norm for every dataset.

    Args:
        region_size: Number of stored features of a region, >= 1.
        size: Dimensions of the joint space and of all layers, >= 1.
        region_norm: ``features``: every region to a root mean square of 1; ``published``: every feature to unit length
            over the regions of the image, as in the published code.
        norm_before_reasoning: Whether regions are normalised before the graph blocks as well as after them, as in the
            published code for every dataset but Flickr30k.
    """

    def __init__(
        self,
        region_size: int,
        size: int,
        *,
        region_norm: str = PARAMETERS["region_norm"].default,
        norm_before_reasoning: bool = PARAMETERS["norm_before_reasoning"].default,
    ) -> None:
        super().__init__()
        self.region_norm = region_norm
        self.norm_before_reasoning = norm_before_reasoning
        self.projection = nn.Linear(region_size, size)
        self.blocks = nn.Sequential(*(GraphBlock(size) for _ in range(BLOCKS)))
        self.gru = nn.GRU(size, size, batch_first=True)
        self.norm = nn.BatchNorm1d(size)
        draw_projection(self.projection)

    def forward(self, features: Tensor) -> Tensor:
        """Map stored region features (I, R, D) to unit vectors (I, size).

        With stacked parameters, map (K, I, R, D), or (1, I, R, D) where all models share the images, to (K, I, size).
        The GRU reads the regions in their order; in training I must be at least 2, for the batch norm.
        """
        regions = linear(self.projection, features)
        if self.norm_before_reasoning:
            regions = self._normalised(regions)
        regions = self._normalised(self.blocks(regions))
        with computing_in_full(regions.device):
            return normalize(batch_norm(self.norm, last_state(self.gru, in_full(regions))), dim=-1, eps=1e-12)

    def _normalised(self, regions: Tensor) -> Tensor:
        """Scale regions (..., I, R, D) as ``region_norm`` says; vectors of length 0 stay 0.

        Regions that only pad a file are 0. If they were divided by a tiny number, their gradient would be so large that
        gradient clipping would scale all other gradients to almost 0.
        """
        axis, scale = (-1, sqrt(regions.shape[-1])) if self.region_norm == "features" else (-2, 1.0)
        lengths = regions.norm(dim=axis, keepdim=True)
        return regions / lengths.where(lengths > 1e-12, 1.0) * scale


class VSRN(RetrievalModel):
    """Images and captions as unit vectors of one joint space; ``image_parameters`` are ``RegionReasoning``'s."""

    can_stack = True
    has_static_shapes = True

    def __init__(
        self, region_size: int, vocabulary_size: int, embedding_size: int, word_size: int, **image_parameters: Any
    ) -> None:
        super().__init__()
        self.images = RegionReasoning(region_size, embedding_size, **image_parameters)
        self.text = TextEncoder(vocabulary_size, word_size, embedding_size)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map stored regions (I, R, D), with any R, to unit vectors (I, embedding_size)."""
        encoded: Tensor = self.images(features)
        return encoded

    def encode_captions(self, tokens: Tensor, lengths: Lengths) -> Tensor:
        """Map captions (C, T) with their lengths (C,) to unit vectors (C, embedding_size)."""
        encoded: Tensor = self.text(tokens, lengths)
        return encoded
