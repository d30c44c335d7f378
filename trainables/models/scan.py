"""SCAN: regions and words that attend to each other, compared pair by pair of an image and a caption.

Regions are mapped by one linear map, words by a bidirectional GRU whose directions are averaged. Vectors of regions and
words are scaled to unit length, and ``trainables.models.cross_attention`` compares the two sets.

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024; code
        kuanghuei/SCAN@053693f, model.py:66-160 (encoders) and 163-298 (similarity).
"""

from math import sqrt
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.cross_attention import Attention
from trainables.models.gru import all_states
from trainables.models.layers import computing_in_full, in_full, linear
from trainables.models.pair_model import PairModel
from trainables.representations import Sets


class SCAN(PairModel):
    """Images as unit vectors of their regions, captions as unit vectors of their words.

    Attributes:
        lambda_softmax: Inverse temperature of the attention, > 0.
        lambda_lse: Sharpness of the aggregation ``lse``, > 0.
        negative_slope: Factor on negative products in a clipping norm, >= 0.
    """

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
        cross_attention: str = "t2i",
        raw_feature_norm: str = "clipped_l2norm",
        aggregation: str = "lse",
        lambda_softmax: float = 9.0,
        lambda_lse: float = 6.0,
        negative_slope: float = 0.1,
    ) -> None:
        """Take the sizes, and the settings of ``cross_attention.Attention``."""
        super().__init__()
        self.image_projection = nn.Linear(region_size, embedding_size)
        self.words = nn.Embedding(vocabulary_size, word_size)
        self.gru = nn.GRU(word_size, embedding_size, batch_first=True, bidirectional=True)
        self._direction, self._norm, self._aggregation = cross_attention, raw_feature_norm, aggregation
        self.lambda_softmax, self.lambda_lse, self.negative_slope = lambda_softmax, lambda_lse, negative_slope
        bound = sqrt(6.0) / sqrt(region_size + embedding_size)
        nn.init.uniform_(self.image_projection.weight, -bound, bound)
        nn.init.zeros_(self.image_projection.bias)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's region features and vocabulary."""
        sizes, parameters = config.training, dict[str, Any](config.model_parameters)
        region_size = data.splits["train"].features.shape[-1]
        return cls(region_size, len(data.vocabulary), sizes.embedding_size, sizes.word_size, **parameters)

    def encode_images(self, features: Tensor) -> Sets:
        """Map stored regions (I, R, D) to unit vectors (I, R, embedding_size)."""
        regions = normalize(in_full(linear(self.image_projection, features)), dim=-1, eps=1e-12)
        return Sets(regions, torch.full(regions.shape[:-2], regions.shape[-2]))

    def encode_captions(self, tokens: Tensor, lengths: Tensor) -> Sets:
        """Map captions (C, T) with their lengths (C,) on the CPU to unit vectors of words (C, T, embedding_size)."""
        with computing_in_full(tokens.device):
            states = all_states(self.words.weight, self.gru, tokens, lengths)
            return Sets(normalize(states, dim=-1, eps=1e-12), lengths)

    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """Return the similarity of each image to each caption, (I, C), or (K, I, C) of stacked models."""
        attention = Attention(
            direction=self._direction,
            norm=self._norm,
            aggregation=self._aggregation,
            lambda_softmax=self.lambda_softmax,
            lambda_lse=self.lambda_lse,
            negative_slope=self.negative_slope,
        )
        return attention(images, captions)
