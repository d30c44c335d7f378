"""Scores of a model that compares an image with a caption: a block of the similarity matrix at a time.

Only the scores of captions with their own images, less than a hundredth of all pairs, are computed twice. The two
scores of a pair may differ by rounding. ``tolerance`` bounds this difference: SAFETY times the largest difference
between the scores of a few pairs computed together and one by one, or the rounding of float32 if that is larger.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from trainables.losses.directions import NotANumberError
from trainables.positive_ranks import ROUNDING, SAFETY, count_reaching, places_of_positives
from trainables.representations import PackedSets

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
        block = _checked(self._compare(self._images[rows], self._captions[columns]))
        block[places_of_positives(block, row_of_column)] = -torch.inf
        of_images = count_reaching(block, per_image.to(block.dtype))
        of_captions = count_reaching(block.T, per_caption[:, None].to(block.dtype))
        return of_images, of_captions[:, 0]

    @torch.no_grad()
    def between(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return the scores of some images with some captions as float64, with the precision of the model."""
        return _checked(self._compare(self._images[images], self._captions[captions])).double()

    @torch.no_grad()
    def _rounding(self) -> float:
        sample = torch.arange(SAMPLE)
        images, captions = sample[: len(self._images)], sample[: len(self._captions)]
        together = self.between(images, captions)
        alone = torch.cat([torch.cat([self.between(i, c) for c in captions.split(1)], 1) for i in images.split(1)])
        return SAFETY * max(float((together - alone).abs().max()), ROUNDING * float(together.abs().max()))


def _checked(block: Tensor) -> Tensor:
    """Return a block unchanged, after checking that all its numbers are finite."""
    if not bool(block.isfinite().all()):
        raise NotANumberError("similarities must be finite; the model has diverged")
    return block
