"""A model: images by a linear map of their features, captions by the mean of their words' vectors."""

from typing import Self

from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.retrieval_model import RetrievalModel
from trainables.plugins import model


@model(features="global", space={"dropout": (0.0, 0.8)})
class BagOfWords(RetrievalModel):
    """A linear map of image features beside the mean of word vectors."""

    def __init__(self, image_size: int, words: int, embedding_size: int, *, dropout: float = 0.0) -> None:
        """Make an untrained model; ``dropout`` is the part of each vector that is left out in training."""
        super().__init__()
        self.image = nn.Linear(image_size, embedding_size)
        self.words = nn.Embedding(words, embedding_size, padding_idx=0)
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make a model of the config's size for the dataset's features and vocabulary."""
        image_size = data.splits["train"].features.shape[-1]
        return cls(image_size, len(data.vocabulary), config.training.embedding_size, **config.model_parameters)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map features (I, D) to unit vectors (I, E)."""
        return normalize(self.dropout(self.image(features)), dim=-1)

    def encode_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Map token ids (C, T), zero-padded, to unit vectors (C, E)."""
        there = (tokens != 0)[..., None]
        vectors = (self.words(tokens) * there).sum(1) / there.sum(1).clamp(min=1)
        return normalize(self.dropout(vectors), dim=-1)
