"""VSRN: regions that reason about each other for images, a GRU for captions, cosine between them.

The caption decoder of the original, a second loss on the image vector, is left out as in [Bleeker2022].

References:
    [Li2019] Li et al., Visual Semantic Reasoning for Image-Text Matching. arXiv:1909.02701
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
"""

from typing import Any, Self

from torch import Tensor

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.region_reasoning import RegionReasoning
from trainables.models.retrieval_model import RetrievalModel
from trainables.models.text_encoder import TextEncoder


class VSRN(RetrievalModel):
    """Images and captions as unit vectors of one joint space; ``image_parameters`` are ``RegionReasoning``'s."""

    can_stack = True

    def __init__(
        self, region_size: int, vocabulary_size: int, embedding_size: int, word_size: int, **image_parameters: Any
    ) -> None:
        super().__init__()
        self.images = RegionReasoning(region_size, embedding_size, **image_parameters)
        self.text = TextEncoder(vocabulary_size, word_size, embedding_size)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's region features and vocabulary."""
        sizes = config.training
        region_size = data.splits["train"].features.shape[-1]
        vocabulary_size = len(data.vocabulary)
        return cls(region_size, vocabulary_size, sizes.embedding_size, sizes.word_size, **config.model_parameters)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map stored regions (I, R, D), with any R, to unit vectors (I, embedding_size)."""
        encoded: Tensor = self.images(features)
        return encoded

    def encode_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Map captions (C, T) with their lengths (C,) on the CPU to unit vectors (C, embedding_size)."""
        encoded: Tensor = self.text(tokens, lengths)
        return encoded
