"""Counts the scores of a block that are at or above thresholds, in float32, and in float64 where scores are too close.

A matrix product in float64 takes twice the time of a product in float32 on a CPU, and up to 64 times on a GPU. A score
in float32 that differs from its threshold by more than its largest possible error is decided. This error,

    slack = SAFETY * max(largest relative error of a sample, ROUNDING) * longest image * longest caption,

is measured on a sample of the embeddings with the matrix product that makes the blocks, so any order of summation is
covered. Queries with a score closer than the slack to a threshold are computed again in float64.
"""

import torch
from torch import Tensor

SAFETY = 16.0
"""Factor on the largest error of the sample; the largest error of all scores is far below this multiple."""

ROUNDING = 2.0**-24
"""Relative rounding error of one float32 number."""

TIE = 1e-12
"""Difference below which scores are ties, relative to the longest vectors: the rounding of float64 sums."""

PAIRS = 512
"""Number of captions whose scores with their own images are computed at a time, so that they fit a CPU's cache."""

SAMPLE = 256
"""Number of images, and of captions, in the sample, whose scores are computed in both precisions."""


class BlockScores:
    """Dot products of images and captions as ``trainables.scores.Scores``; ``own`` and ``between`` return float64."""

    def __init__(self, images: Tensor, captions: Tensor) -> None:
        """Take embeddings (I, D) and (C, D); float64 embeddings are compared as they are."""
        is_exact = torch.float64 in (images.dtype, captions.dtype)
        dtype = torch.float64 if is_exact else torch.float32
        self._images, self._captions, self._slack = images.to(dtype), captions.to(dtype), 0.0
        image_lengths, caption_lengths = (
            torch.linalg.vector_norm(vectors, dim=-1).double() for vectors in (self._images, self._captions)
        )
        # ``largest`` is an upper bound of all scores.
        largest = float(image_lengths.max() * caption_lengths.max())
        self.tolerance, self.device = TIE * largest, images.device
        if not is_exact:
            error = self._error(image_lengths[:SAMPLE], caption_lengths[:SAMPLE])
            self._slack = SAFETY * max(ROUNDING, error) * largest
        # Buffers are reused for all blocks, because allocating them for each block took a tenth of an evaluation.
        self._scores, self._flags = (self._images.new_empty(0) for _ in range(2))

    def own(self, image_of_caption: Tensor) -> Tensor:
        """Return the score of each caption with its image, see ``Scores.own``."""
        pairs = zip(image_of_caption.split(PAIRS), self._captions.split(PAIRS), strict=True)
        return torch.cat([(self._images.index_select(0, owner).double().mul_(part)).sum(-1) for owner, part in pairs])

    def between(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return the scores of some images with some captions, see ``Scores.between``."""
        return self._images[images].double() @ self._captions[captions].double().T

    def count(
        self, rows: slice, columns: slice, row_of_column: Tensor, per_image: Tensor, per_caption: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Count the negatives of a block at or above thresholds, see ``Scores.count``."""
        images, captions = self._images[rows], self._captions[columns]
        block, flags = self._multiply(images, captions)
        own = places_of_positives(block, row_of_column)
        block[own] = -torch.inf
        of_images, is_open = self._decide(block, per_image, flags)
        if len(is_open):
            again = images[is_open].double() @ captions.double().T
            is_positive = torch.zeros_like(block, dtype=torch.bool)
            is_positive[own] = True
            again[is_positive[is_open]] = -torch.inf
            of_images[is_open] = count_reaching(again, per_image[is_open])
        of_captions, is_open = self._decide(block.T, per_caption[:, None], flags.T)
        if len(is_open):
            again = images.double() @ captions[is_open].double().T
            again[places_of_positives(again, row_of_column[is_open])] = -torch.inf
            of_captions[is_open] = count_reaching(again.T, per_caption[is_open, None])
        return of_images, of_captions[:, 0]

    def _multiply(self, images: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of a block, and a buffer of equal shape; both are overwritten with the next block."""
        shape = len(images), len(captions)
        if self._scores.numel() < shape[0] * shape[1]:
            self._scores, self._flags = (images.new_empty(shape[0] * shape[1]) for _ in range(2))
        scores, flags = (kept[: shape[0] * shape[1]].view(shape) for kept in (self._scores, self._flags))
        return torch.mm(images, captions.T, out=scores), flags

    def _decide(self, block: Tensor, thresholds: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
        """Return the counts of each query (row), shape (Q, N), and the queries whose counts are uncertain."""
        perhaps, surely = (
            count_reaching(block, (thresholds + slack).to(block.dtype), flags) for slack in (-self._slack, self._slack)
        )
        return surely, (surely != perhaps).any(1).nonzero().flatten()

    def _error(self, image_lengths: Tensor, caption_lengths: Tensor) -> float:
        """Return the largest error of the sample's scores in float32, relative to the lengths of the vectors."""
        images, captions = self._images[:SAMPLE], self._captions[:SAMPLE]
        error = (images.double() @ captions.double().T - images @ captions.T).abs()
        lengths = image_lengths[:, None] * caption_lengths
        return float((error / lengths.where(lengths > 0, 1.0)).max())


def count_reaching(scores: Tensor, thresholds: Tensor, flags: Tensor | None = None) -> Tensor:
    """Count the scores of each query, shape (..., Q, C), that are at or above each of its thresholds, (..., Q, N).

    ``flags`` is a buffer with the scores' shape, strides and dtype.
    """
    # Comparisons are stored as numbers: a CPU compares into numbers four times as fast as into bool, and sums them
    # three times as fast. The sums are exact up to 2^24 candidates of a query.
    flags = torch.empty_like(scores) if flags is None else flags
    dtype = torch.promote_types(scores.dtype, torch.float32)
    counts = [
        torch.ge(scores, column[..., None], out=flags).sum(-1, dtype=dtype).to(torch.int32)
        for column in thresholds.unbind(-1)
    ]
    return torch.stack(counts, -1)


def places_of_positives(block: Tensor, row_of_column: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the positives in a block; for ``row_of_column`` see ``Scores.count``."""
    columns = ((row_of_column >= 0) & (row_of_column < len(block))).nonzero().flatten()
    return row_of_column[columns], columns
