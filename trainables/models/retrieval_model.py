"""The interface of models for training and evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from trainables.config import Precision, TrialConfig
from trainables.data.dataset import Dataset
from trainables.errors import Blaming
from trainables.models.layers import computing, in_full
from trainables.positive_ranks import BlockScores, Scores
from trainables.representations import Sets


class RetrievalModel(nn.Module, ABC):
    """Turns images and captions into vectors whose dot product is their similarity.

    A model that compares an image with a caption in another way is a ``trainables.models.pair_model.PairModel``: it
    turns images and captions into sets of vectors, and defines the similarity of two sets. Code that trains, evaluates
    or queries a model calls ``compare``, ``gather`` and ``scores`` for both kinds of models.

    Attributes:
        crop_size: Side in pixels of the crops that the model reads; 0 where it reads features.
        precision: Precision of ``computing``.
        can_stack: Whether the model also works with parameters of shape (K, ...) of K stacked models
            (``trainables.fused``). Features, captions and vectors then have a leading dimension too: K, or 1
            where all models share them.
        stacked_settings: Attributes that may differ between stacked models: numbers, which become tensors (K, 1, 1).
        quick_pairs: Number of pairs of an image and a caption that are compared in about a second.
    """

    quick_pairs = 1 << 30
    crop_size = 0
    precision: Precision = "float32"
    can_stack = False
    stacked_settings: tuple[str, ...] = ()

    @classmethod
    @abstractmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model of the config's sizes for the dataset's features and vocabulary."""

    @abstractmethod
    def encode_images(self, features: Tensor) -> Tensor | Sets:
        """Map image features, (I, D) or (I, R, D), or pixels, (I, S, S, 3) uint8, to vectors (I, E)."""

    @abstractmethod
    def encode_captions(self, captions: Tensor, lengths: Tensor) -> Tensor | Sets:
        """Map captions to vectors (C, E).

        Args:
            captions: Token ids (C, T), int64, zero-padded; or features (C, D), float32, for models in
                ``trainables.config.TEXT_MODELS``.
            lengths: Number of tokens of each caption, (C,), on the CPU.
        """

    def compare(self, images: Any, captions: Any) -> Tensor:
        """Return the similarity of each image to each caption, (I, C), or (K, I, C) of stacked models, float32.

        Both are results of ``encode_images`` and ``encode_captions``, or of ``gather``.
        """
        # The steps of bf16 near a cosine of 1 are too coarse for a temperature of 0.01.
        matrix: Tensor = in_full(images) @ in_full(captions).mT
        return matrix

    def gather(self, parts: Iterable[Any]) -> Any:
        """Join encoded parts to a ``trainables.representations.Gallery``, in float32 or higher precision."""
        return in_full(torch.cat(list(parts)))

    def scores(self, images: Any, captions: Any) -> Scores:
        """Return the scores of two galleries, from which ranks are counted."""
        return BlockScores(images, captions)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in ``precision`` during a ``with`` block; an error of a plug-in's model names the plug-in's line."""
        # A model without parameters has no matrix products, so the device does not matter.
        device = next((parameter.device for parameter in self.parameters()), torch.device("cpu"))
        with Blaming(), computing(self.precision, device):
            yield

    def train_backbone(self, trained: bool) -> None:
        """Train the backbone or freeze it; called before each epoch. Models without a backbone do nothing."""

    def constrain(self) -> None:
        """Project the parameters onto their allowed set; called after each optimiser step.

        Most models have no constraints and do nothing.
        """
