"""What the training loop and the evaluation ask of a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import torch
from torch import Tensor, nn

from trainables.config import Precision, TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.precision import computing
from trainables.plugins.blame import Blaming


class RetrievalModel(nn.Module, ABC):
    """Turns images and captions into vectors whose dot product is their similarity.

    Attributes:
        crop_size: Side in pixels of the crops that it reads; 0 where it reads features.
        precision: What ``computing`` computes in.
        can_stack: Whether it also works with parameters of shape (K, ...), those of K models on top of each other
            (``trainables.models.stack``). Features and captions then have a leading dimension too, K, or 1 where all
            models see the same, and so have the vectors.
        stacked_settings: Attributes that may differ between stacked models; numbers, and tensors (K, 1, 1) there.
    """

    crop_size = 0
    precision: Precision = "float32"
    can_stack = False
    stacked_settings: tuple[str, ...] = ()

    @classmethod
    @abstractmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model of the config's sizes for the dataset's features and vocabulary."""

    @abstractmethod
    def encode_images(self, features: Tensor) -> Tensor:
        """Map image features, (I, D) or (I, R, D), or pixels, (I, S, S, 3) uint8, to vectors (I, E)."""

    @abstractmethod
    def encode_captions(self, captions: Tensor, lengths: Tensor) -> Tensor:
        """Map captions to vectors (C, E).

        Args:
            captions: Token ids (C, T), int64, zero-padded; or features (C, D), float32, of a model of
                ``trainables.config.TEXT_MODELS``.
            lengths: Tokens of each caption, (C,), on the CPU.
        """

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let vectors be computed in the precision that was asked for; an error of a plug-in's model says its line."""
        # A model without parameters has no matrix product either, so that any device will do.
        device = next((parameter.device for parameter in self.parameters()), torch.device("cpu"))
        with Blaming(), computing(self.precision, device):
            yield

    def train_backbone(self, trained: bool) -> None:
        """Let the backbone learn, or stand still as it is; called before each epoch. Most models have none."""

    def constrain(self) -> None:
        """Bring the parameters back into the set that they must stay in; called after each optimiser step.

        Most models have no such set, and nothing is done.
        """
