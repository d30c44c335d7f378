"""VSE++ on precomputed global features: one linear map for images, a GRU for captions, cosine between them.

References:
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, model.py:138-172.
"""

from math import sqrt
from typing import Self

from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.retrieval_model import RetrievalModel
from trainables.models.text_encoder import TextEncoder


class VSEPP(RetrievalModel):
    """Images and captions as unit vectors of one joint space."""

    def __init__(self, image_size: int, vocabulary_size: int, embedding_size: int, word_size: int) -> None:
        super().__init__()
        self.image_projection = nn.Linear(image_size, embedding_size)
        self.text = TextEncoder(vocabulary_size, word_size, embedding_size)
        bound = sqrt(6.0) / sqrt(image_size + embedding_size)
        nn.init.uniform_(self.image_projection.weight, -bound, bound)
        nn.init.zeros_(self.image_projection.bias)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset) -> Self:
        """Make an untrained model for the dataset's global features and vocabulary."""
        sizes = config.training
        image_size = data.splits["train"].features.shape[-1]
        return cls(image_size, len(data.vocabulary), sizes.embedding_size, sizes.word_size)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map features (I, D) to unit vectors (I, embedding_size); the features are used as they are stored."""
        return normalize(self.image_projection(features), dim=-1, eps=1e-12)

    def encode_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Map captions (C, T) with their lengths (C,) on the CPU to unit vectors (C, embedding_size)."""
        encoded: Tensor = self.text(tokens, lengths)
        return encoded
