"""The similarities of all images and captions of a split, a block at a time, from which ranks are counted."""

from typing import Protocol

import torch
from torch import Tensor


class Scores(Protocol):
    """Similarities of I images and C captions, larger is closer.

    Attributes:
        tolerance: Largest difference of scores that count as ties, >= 0, because blocks round differently.
        device: Device of the counts.
    """

    @property
    def tolerance(self) -> float:
        """Largest difference of scores that count as ties."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of the counts."""
        ...

    def own(self, image_of_caption: Tensor) -> Tensor:
        """Return the score of each caption with its image, shape (C,), float64; images are indices, (C,), int64."""
        ...

    def count(
        self, rows: slice, columns: slice, row_of_column: Tensor, per_image: Tensor, per_caption: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Count the negatives of a block at or above thresholds.

        Args:
            rows: Images of the block.
            columns: Captions of the block.
            row_of_column: Row of each caption's image in the block, shape (columns,); a number that is no row where it
                lies elsewhere. These pairs are no negatives.
            per_image: Thresholds, shape (rows, N), float64.
            per_caption: Thresholds, shape (columns,), float64.

        Returns:
            For each image how many captions reach each of its thresholds, (rows, N), and for each caption how many
            images reach its threshold, (columns,).
        """
        ...

    def between(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return the scores of some images with some captions, both indices, shape (images, captions)."""
        ...
