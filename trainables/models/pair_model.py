"""The interface of models that turn images and captions into sets of vectors, and compare pairs of sets.

``PairScores`` computes the scores of a split, a block of the similarity matrix at a time. Only the scores of captions
with their own images, less than a hundredth of all pairs, are computed twice. The two scores of a pair may differ by
rounding. ``tolerance`` bounds this difference. It is SAFETY times the largest difference between the scores of a few
pairs computed together and one by one, or the rounding of float32 if that is larger.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from trainables.errors import Blaming
from trainables.losses.directions import NotANumberError
from trainables.models.retrieval_model import RetrievalModel, computing_in_full, in_full
from trainables.positive_ranks import ROUNDING, SAFETY, count_reaching, places_of_positives
from trainables.representations import PackedSets, Sets

OWN = 32
"""Number of captions whose scores with their own images are computed at a time."""

SAMPLE = 6
"""Number of images, and of captions, that are compared together and one by one to find the tolerance."""


class PairScores:
    """Scores of images and captions, see ``trainables.positive_ranks``."""

    def __init__(
        self, compare: Callable[[PackedSets, PackedSets], Tensor], images: PackedSets, captions: PackedSets
    ) -> None:
        """Take a function from two collections of sets to similarities (I, C), and all sets, without gradients."""
        self._compare, self._images, self._captions = compare, images, captions
        self.device = images.vectors.device
        self.tolerance = self._rounding()

    @torch.no_grad()
    def own(self, image_of_caption: Tensor) -> Tensor:
        """Return the score of each caption with its image, computed in blocks of neighbouring images."""
        owners = image_of_caption.cpu()
        own = torch.empty(len(owners), dtype=torch.float64, device=self.device)
        for part in owners.argsort(stable=True).split(OWN):
            present, rows = owners[part].unique(return_inverse=True)
            block = self.between(present, part)
            own[part.to(self.device)] = block[rows.to(self.device), torch.arange(len(part), device=self.device)]
        return own

    @torch.no_grad()
    def count(
        self, rows: slice, columns: slice, row_of_column: Tensor, per_image: Tensor, per_caption: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Count the negatives of a block at or above thresholds, see ``Scores.count``."""
        block = _finite(self._compare(self._images[rows], self._captions[columns]))
        block[places_of_positives(block, row_of_column)] = -torch.inf
        of_images = count_reaching(block, per_image.to(block.dtype))
        of_captions = count_reaching(block.T, per_caption[:, None].to(block.dtype))
        return of_images, of_captions[:, 0]

    @torch.no_grad()
    def between(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return the scores of some images with some captions as float64, with the precision of the model."""
        return _finite(self._compare(self._images[images], self._captions[captions])).double()

    @torch.no_grad()
    def _rounding(self) -> float:
        sample = torch.arange(SAMPLE)
        images, captions = sample[: len(self._images)], sample[: len(self._captions)]
        together = self.between(images, captions)
        alone = torch.cat([torch.cat([self.between(i, c) for c in captions.split(1)], 1) for i in images.split(1)])
        return SAFETY * max(float((together - alone).abs().max()), ROUNDING * float(together.abs().max()))


def _finite(block: Tensor) -> Tensor:
    """Return a block unchanged, after checking that all its numbers are finite."""
    if not bool(block.isfinite().all()):
        raise NotANumberError("similarities must be finite; the model has diverged")
    return block


AT_ONCE = 128
"""Number of images and captions that are padded and compared at a time; limits memory and changes no result."""


class PairModel(RetrievalModel):
    """A model that turns images and captions into sets of vectors, and two sets into their similarity."""

    quick_pairs = 200_000

    @abstractmethod
    def encode_images(self, features: Any) -> Sets:
        """Map image features, (I, R, D), to sets of vectors (I, R, E)."""

    @abstractmethod
    def encode_captions(self, captions: Any, lengths: Any) -> Sets:
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
            rows.append(torch.cat([self.compare_sets(some_images, group) for group in some_captions], dim=1))
        return torch.cat(rows)[:, order.argsort().to(captions.vectors.device)]

    def gather(self, parts: Iterable[Sets]) -> PackedSets:
        """See ``RetrievalModel``."""
        packed = PackedSets.pack(parts)
        return PackedSets(in_full(packed.vectors), packed.lengths)

    def scores(self, images: PackedSets, captions: PackedSets) -> PairScores:
        """See ``RetrievalModel``."""
        return PairScores(self.compare, images, captions)
