"""What the training loop and the evaluation ask of a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from trainables.block_scores import BlockScores
from trainables.config import Precision, TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.precision import computing, in_full
from trainables.plugins.blame import Blaming
from trainables.representations import Sets
from trainables.scores import Scores


class RetrievalModel(nn.Module, ABC):
    """Turns images and captions into vectors whose dot product is their similarity.

    A model that compares an image with a caption in another way is a ``trainables.models.pair_model.PairModel``: what
    it makes of images and captions are sets of vectors, and it says what the similarity of two sets is. Whoever trains,
    evaluates or asks a model calls ``compare``, ``gather`` and ``scores`` and needs not know which kind it is.

    Attributes:
        crop_size: Side in pixels of the crops that it reads; 0 where it reads features.
        precision: What ``computing`` computes in.
        can_stack: Whether it also works with parameters of shape (K, ...), those of K models on top of each other
            (``trainables.models.stack``). Features and captions then have a leading dimension too, K, or 1 where all
            models see the same, and so have the vectors.
        stacked_settings: Attributes that may differ between stacked models; numbers, and tensors (K, 1, 1) there.
        quick_pairs: So many images and captions are compared in about a second.
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
            captions: Token ids (C, T), int64, zero-padded; or features (C, D), float32, of a model of
                ``trainables.config.TEXT_MODELS``.
            lengths: Tokens of each caption, (C,), on the CPU.
        """

    def compare(self, images: Any, captions: Any) -> Tensor:
        """Return the similarity of each image to each caption, (I, C), or (K, I, C) of stacked models, float32.

        Args:
            images: What ``encode_images`` returned, or ``gather`` made of it.
            captions: The same of captions.
        """
        # Cosines near 1 are too coarse in bf16 for a temperature of 0.01.
        matrix: Tensor = in_full(images) @ in_full(captions).mT
        return matrix

    def gather(self, parts: Iterable[Any]) -> Any:
        """Join what an encoder returned part by part: a ``trainables.representations.Gallery``, in full precision."""
        return in_full(torch.cat(list(parts)))

    def scores(self, images: Any, captions: Any) -> Scores:
        """Return what ranks of the captions and images of two galleries are counted from."""
        return BlockScores(images, captions)

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
