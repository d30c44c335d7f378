"""The interface of models that turn images and captions into sets of vectors, and compare pairs of sets."""

from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor

from trainables.models.layers import computing_in_full, in_full
from trainables.models.retrieval_model import RetrievalModel
from trainables.pair_scores import PairScores
from trainables.plugins.blame import Blaming
from trainables.representations import PackedSets, Sets

AT_ONCE = 128
"""Number of images and captions that are padded and compared at a time; limits memory and changes no result."""


class PairModel(RetrievalModel):
    """A model that turns images and captions into sets of vectors, and two sets into their similarity."""

    quick_pairs = 200_000

    @abstractmethod
    def encode_images(self, features: Tensor) -> Sets:
        """Map image features, (I, R, D), to sets of vectors (I, R, E)."""

    @abstractmethod
    def encode_captions(self, captions: Tensor, lengths: Tensor) -> Sets:
        """Map captions, (C, T) with their lengths (C,) on the CPU, to sets of vectors (C, T, E)."""

    @abstractmethod
    def compare_sets(self, images: Sets, captions: Sets) -> Tensor:
        """Return the similarity of each image to each caption, shape (I, C), or (K, I, C) of stacked models.

        The similarity of a pair must depend on this pair alone, in float32 precision or higher.
        """

    def compare(self, images: Sets | PackedSets, captions: Sets | PackedSets) -> Tensor:
        """See ``RetrievalModel``."""
        with Blaming(), computing_in_full(images.vectors.device):
            if isinstance(images, Sets) and isinstance(captions, Sets):
                return self.compare_sets(images, captions)
            assert isinstance(images, PackedSets) and isinstance(captions, PackedSets)
            return self._compare_in_parts(images, captions)

    def _compare_in_parts(self, images: PackedSets, captions: PackedSets) -> Tensor:
        """Compare galleries, captions of similar lengths at a time, so that there is little padding."""
        order = captions.lengths.argsort(descending=True, stable=True)
        some_captions = [captions[part].padded() for part in order.split(AT_ONCE)]
        rows = []
        for part in torch.arange(len(images)).split(AT_ONCE):
            some_images = images[part].padded()
            rows.append(torch.cat([self.compare_sets(some_images, some) for some in some_captions], dim=1))
        return torch.cat(rows)[:, order.argsort().to(captions.vectors.device)]

    def gather(self, parts: Iterable[Sets]) -> PackedSets:
        """See ``RetrievalModel``."""
        packed = PackedSets.pack(parts)
        return PackedSets(in_full(packed.vectors), packed.lengths)

    def scores(self, images: PackedSets, captions: PackedSets) -> PairScores:
        """See ``RetrievalModel``."""
        return PairScores(self.compare, images, captions)
