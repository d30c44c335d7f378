"""VSE++: one linear map for images, a GRU for captions, cosine between them.

The input for an image is a precomputed global feature, or its pixels, which a backbone reads that is trained along.
With ``pooling`` the input is precomputed regions. Linearly mapped regions are pooled to one vector, and so are words,
the states of a bidirectional GRU, as in VSE-infinity [Chen2021]. The residual perceptron and the random choice of
regions in training, which the published code of VSE-infinity has, are left out.

The pooling of a set of vectors is the mean, the maximum, or the generalised pooling operator (GPO) of
VSE-infinity. With max_k the k-th largest value of a dimension over the n vectors of a set, GPO is

    v_d = sum_k theta_k max_k({x_d}),    theta = softmax(w^T h / 0.1),    h_k = (forward_k + backward_k) / 2

with h the states of a two-directional GRU that reads the positional encodings p_1 ... p_n,

    p_k[2j] = sin(k / 10000^(2j / P)),    p_k[2j + 1] = cos(k / 10000^(2j / P)),    k = 0 ... n - 1.

So the weights depend on n alone, are positive and sum to 1: theta = (1, 0, ...) is the maximum, theta = 1/n the mean.
Positions from 0, the sizes of 32, the mean of both directions and the division by 0.1 are not in the paper and come
from the published code. Here the GRU reads one sequence for each n in a batch, not for each set.

References:
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, model.py:69-172 (images), 185-233
        (captions).
    [Chen2021] Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding, eq. 2-6.
        arXiv:2011.04305; code woodfrog/vse_infty@4ccad17, lib/modules/aggr/gpo.py.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.data.length_profile import Lengths, ProfiledLengths
from trainables.data.pictures import Crop
from trainables.data.reading import Reading
from trainables.model_parameters import MODEL_TABLE
from trainables.models.backbones import Backbone, build_backbone
from trainables.models.gru import all_states, final_states
from trainables.models.retrieval_model import RetrievalModel, computing_in_full, draw_projection, in_full, linear
from trainables.representations import Sets, as_sets

PARAMETERS = MODEL_TABLE["vsepp"].parameters


class TextEncoder(nn.Module):
    """The state of a one-layer, left-to-right GRU after a caption's last token, scaled to unit length.

    With a pooling of ``POOLINGS``, the states of a bidirectional GRU are pooled instead. The state of a word is the
    mean of both directions [Chen2021, section 3.3].
    """

    def __init__(self, vocabulary_size: int, word_size: int, embedding_size: int, pooling: str | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, word_size)
        self.gru = nn.GRU(word_size, embedding_size, batch_first=True, bidirectional=pooling is not None)
        self.pooling = None if pooling is None else POOLINGS[pooling]()
        # As in the published code, the row of the padding is drawn like every other row.
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, lengths: Lengths) -> Tensor:
        """Map word ids (C, T), 0 after a caption's end, with lengths (C,) to unit vectors (C, E).

        With stacked parameters, map to (K, C, E); see ``final_states``.
        """
        with computing_in_full(tokens.device):
            if self.pooling is None:
                vectors = final_states(self.words, self.gru, tokens, lengths)
            else:
                states = all_states(self.words.weight, self.gru, tokens, lengths)
                vectors = self.pooling(states, lengths.values if isinstance(lengths, ProfiledLengths) else lengths)
            return normalize(vectors, dim=-1, eps=1e-12)


class VSEPP(RetrievalModel):
    """Images and captions as unit vectors of one joint space."""

    can_stack = True
    has_static_shapes = True

    def __init__(
        self,
        image_size: int,
        vocabulary_size: int,
        embedding_size: int,
        word_size: int,
        *,
        backbone: Backbone | None = None,
        pooling: str | None = PARAMETERS["pooling"].default,
    ) -> None:
        """Take the sizes of features, vocabulary, joint space and word embeddings.

        ``image_size`` is the number of features of an image (a backbone's, if given), or of a region with ``pooling``.
        The backbone maps pixels to features; ``None`` reads precomputed features. ``pooling`` is ``mean``, ``max`` or
        ``gpo`` over regions and words; ``None`` reads global features and takes the last state of a left-to-right GRU.
        """
        super().__init__()
        self.image_projection = nn.Linear(image_size, embedding_size)
        self.regions = None if pooling is None else PooledRegions(pooling)
        self.text = TextEncoder(vocabulary_size, word_size, embedding_size, pooling)
        self.backbone = backbone
        self.reading = Reading() if backbone is None else Reading(Crop(backbone.image_size))
        self._trains_backbone = False
        # The pooling GPO makes a sequence of each size of a set in the batch.
        self.has_static_shapes = backbone is None and pooling != "gpo"
        draw_projection(self.image_projection)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's features, or for its pixels, and its vocabulary."""
        sizes = config.training
        if not sizes.finetune:
            return super().build(config, data)
        named = {name: entry.default for name, entry in PARAMETERS.items()} | {**config.model_parameters}
        weights = named["weights"] if pretrained else "none"
        backbone = build_backbone(named["backbone"], weights, seed=config.seed, grid=False)
        return cls(
            backbone.feature_size, len(data.vocabulary), sizes.embedding_size, sizes.word_size, backbone=backbone
        )

    def encode_images(self, features: Any) -> Tensor:
        """Map images to unit vectors (I, embedding_size).

        The input is stored features (I, D), or with a pooling (I, R, D) or sets of such; or pixels (I, S, S, 3).
        """
        if self.backbone is not None:
            features, _ = self.backbone(features)
        if self.regions is not None:
            stored = as_sets(features)
            mapped = linear(self.image_projection, stored.vectors)
            pooled: Tensor = self.regions(Sets(mapped, stored.lengths))
            return pooled
        return normalize(in_full(linear(self.image_projection, features)), dim=-1, eps=1e-12)

    def encode_captions(self, tokens: Tensor, lengths: Lengths) -> Tensor:
        """Map captions (C, T) with their lengths (C,) to unit vectors (C, embedding_size)."""
        encoded: Tensor = self.text(tokens, lengths)
        return encoded

    def backbone_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the backbone, if there is one."""
        if self.backbone is not None:
            yield from self.backbone.parameters()

    def train_backbone(self, trained: bool) -> None:
        """Train or freeze the backbone, including its batch norms; does nothing without a backbone."""
        self._trains_backbone = trained
        if self.backbone is not None:
            self.backbone.requires_grad_(trained)

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation mode; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.backbone is not None and not self._trains_backbone:
            self.backbone.eval()
        return self


POSITION_SIZE = 32
"""Dimensions of a positional encoding, and of the GRU that reads it [Chen2021, code]."""

TEMPERATURE = 0.1
"""Divisor of the scores of positions before the softmax [Chen2021, code]."""


def _mean(vectors: Tensor, lengths: Tensor) -> Tensor:
    there = Sets(vectors, lengths).inside[..., None]
    return vectors.masked_fill(~there, 0.0).sum(-2) / there.sum(-2)


def _maximum(vectors: Tensor, lengths: Tensor) -> Tensor:
    return vectors.masked_fill(~Sets(vectors, lengths).inside[..., None], -math.inf).amax(-2)


class GeneralizedPooling(nn.Module):
    """GPO [Chen2021]: sorted values of each dimension, weighted by position with learned weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(POSITION_SIZE, POSITION_SIZE, batch_first=True, bidirectional=True)
        self.score = nn.Linear(POSITION_SIZE, 1, bias=False)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Pool sets of vectors.

        Args:
            vectors: Shape (N, T, E), floating; (K, N, T, E) with stacked parameters. Vectors after the end of a set are
                not read.
            lengths: Number of vectors of each set, int64 on the CPU, in [1, T], shape (N,); with stacked parameters
                (K, N), or (1, N) where all models share the sets.

        Returns:
            One vector for each set, shape (N, E) or (K, N, E), of the dtype of ``vectors``.
        """
        there = Sets(vectors, lengths).inside[..., None]
        ordered = vectors.masked_fill(~there, -math.inf).sort(dim=-2, descending=True).values
        # Places after a set's end hold -inf, and 0 times infinity would be NaN.
        return (ordered.masked_fill(~there, 0.0) * self.weights(lengths, vectors)[..., None]).sum(-2)

    def weights(self, lengths: Tensor, vectors: Tensor) -> Tensor:
        """Return theta of each set, shape (N, T) or (K, N, T), on the device and of the dtype of ``vectors``."""
        longest, device = vectors.shape[-2], vectors.device
        sizes, set_of = lengths.unique(return_inverse=True)
        with computing_in_full(device):
            # The table has one sequence for each size of a set, and an axis of models where the GRU has this axis.
            models = self.score.weight.shape[:-2]
            table = positional_encoding(longest, POSITION_SIZE).to(self.score.weight).expand(*models, -1, -1)
            places, ends = torch.arange(longest, device=device).expand(len(sizes), -1), sizes
            if models:
                places, ends = places[None], sizes[None]
            states = all_states(table, self.gru, places, ends)
            scores = (states @ self.score.weight.unsqueeze(-3).mT)[..., 0] / TEMPERATURE
            inside = torch.arange(longest, device=device) < sizes.to(device)[:, None]
            theta = scores.masked_fill(~inside, -math.inf).softmax(-1).to(vectors.dtype)
        if not models:
            return theta[set_of.to(device)]
        model = torch.arange(models[0], device=device)[:, None]
        return theta[model, set_of.to(device)]


POOLINGS: dict[str, Callable[[], Callable[[Tensor, Tensor], Tensor]]] = {
    "mean": lambda: _mean,
    "max": lambda: _maximum,
    "gpo": GeneralizedPooling,
}
"""Name in ``model_parameters.pooling`` -> function that makes a pooling, see ``GeneralizedPooling.forward``."""


class PooledRegions(nn.Module):
    """Pooling of linearly mapped regions to one vector [Chen2021], without the paper's residual perceptron."""

    def __init__(self, pooling: str) -> None:
        super().__init__()
        self.pooling = POOLINGS[pooling]()

    def forward(self, regions: Sets) -> Tensor:
        """Pool mapped regions (I, R, E) to unit vectors (I, E), or (K, I, R, E) of stacked models to (K, I, E)."""
        return normalize(self.pooling(in_full(regions.vectors), regions.lengths), dim=-1, eps=1e-12)


def positional_encoding(length: int, size: int) -> Tensor:
    """Return the encodings of positions 0 to ``length`` - 1, shape (length, size), float32; ``size`` is even."""
    positions = torch.arange(length, dtype=torch.float32)[:, None]
    frequencies = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = positions * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
