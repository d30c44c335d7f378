"""Ranks of the positives among the negatives of their queries, counted from scores a block at a time.

A retrieval metric only needs, for each positive pair, the number of negatives of its query that score at or above the
pair. These counts are summed over blocks of the similarity matrix, so the whole matrix need not exist.

Scores are compared with thresholds in float32, and in float64 where they are too close. A matrix product in float64
takes twice the time of a product in float32 on a CPU, and up to 64 times on a GPU. A score in float32 that differs from
its threshold by more than its largest possible error is decided. This error,

    slack = SAFETY * max(largest relative error of a sample, ROUNDING) * longest image * longest caption,

is measured on a sample of the embeddings with the matrix product that makes the blocks, so any order of summation is
covered. Queries with a score closer than the slack to a threshold are computed again in float64.
"""

from typing import Protocol

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
    """Dot products of images and captions as ``Scores``; ``own`` and ``between`` return float64."""

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
        block[places_of_positives(block, row_of_column)] = -torch.inf
        of_images = self._decide(images, captions, block, per_image, flags)
        of_captions = self._decide(captions, images, block.T, per_caption[:, None], flags.T)
        return of_images, of_captions[:, 0]

    def _multiply(self, images: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of a block, and a buffer of equal shape; both are overwritten with the next block."""
        shape = len(images), len(captions)
        if self._scores.numel() < shape[0] * shape[1]:
            self._scores, self._flags = (images.new_empty(shape[0] * shape[1]) for _ in range(2))
        scores, flags = (kept[: shape[0] * shape[1]].view(shape) for kept in (self._scores, self._flags))
        return torch.mm(images, captions.T, out=scores), flags

    def _decide(self, queries: Tensor, candidates: Tensor, block: Tensor, thresholds: Tensor, flags: Tensor) -> Tensor:
        """Return the counts of each query, shape (Q, N), from a block (Q, M) in which positives are -inf."""
        perhaps, surely = (
            count_reaching(block, (thresholds + slack).to(block.dtype), flags) for slack in (-self._slack, self._slack)
        )
        uncertain = (surely != perhaps).any(1).nonzero().flatten()
        if len(uncertain):
            again = queries[uncertain].double() @ candidates.double().T
            again[block[uncertain] == -torch.inf] = -torch.inf
            surely[uncertain] = count_reaching(again, thresholds[uncertain])
        return surely

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


class PairScores(Protocol):
    """Similarities of pairs of an image and a caption, larger is closer."""

    @property
    def tolerance(self) -> float:
        """Largest difference of scores that count as ties, >= 0, because blocks round differently."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of the counts."""
        ...

    def between(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return the scores of some images with some captions, both indices, shape (images, captions)."""
        ...


class Scores(PairScores, Protocol):
    """Similarities of I images and C captions, larger is closer, and counts of them a block at a time."""

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


CHUNK = 1024
"""Rows and columns of a block; the block size changes no count."""


def rank_positives(
    images: Tensor, captions: Tensor, image_of_caption: Tensor, *, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """Return the rank of each positive pair among the negatives of its query, from dot products of embeddings.

    Each caption makes one positive pair with its image, so both directions have a rank for each caption. Where the
    image is the query, it is the rank among the captions of other images; where the caption is the query, among the
    other images. Ties rank against the query. ``metrics_of_ranks`` computes the metrics of ``embedding_metrics`` from
    these ranks.

    For the arguments see ``embedding_metrics``.

    Returns:
        Ranks from 1, image to caption and caption to image, each of shape (C,), int64.

    Raises:
        ValueError: See ``embedding_metrics``.
    """
    check_embeddings(images, captions, image_of_caption)
    return rank_by_scores(BlockScores(images.detach(), captions.detach()), image_of_caption, chunk=chunk)


def rank_by_scores(
    scores: Scores, image_of_caption: Tensor, *, chunk: int = CHUNK, depth: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the ranks of ``rank_positives`` from scores.

    ``image_of_caption`` is on the device of the scores. Of an image's captions only the ``depth`` best are ranked, all
    without ``depth``. The others have the last rank, because each rank costs a comparison with every score.
    """
    # Blocks round differently from single scores, so a negative within rounding of a positive counts as a tie.
    own = scores.own(image_of_caption) - scores.tolerance
    image_count = int(image_of_caption.max()) + 1
    order, place, _ = order_positives(own, image_of_caption, image_count)
    ranked = place < (depth or len(own))
    order, place = order[ranked], place[ranked]
    thresholds = own.new_full((image_count, int(place.max()) + 1), torch.inf)
    thresholds[image_of_caption[order], place] = own[order]
    harder, t2i = torch.zeros_like(thresholds, dtype=torch.int64), torch.zeros_like(own, dtype=torch.int64)
    for first in range(0, len(own), chunk):
        columns = slice(first, first + chunk)
        for top in range(0, image_count, chunk):
            rows = slice(top, top + chunk)
            row_of_column = image_of_caption[columns] - top
            of_images, of_captions = scores.count(rows, columns, row_of_column, thresholds[rows], own[columns])
            harder[rows] += of_images
            t2i[columns] += of_captions
    i2t = torch.full_like(t2i, len(own) - 1)
    i2t[order] = harder[image_of_caption[order], place]
    return i2t + 1, t2i + 1


def rank_similarity(similarity: Tensor, image_of_caption: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ranks of ``rank_positives`` from a similarity matrix, for models without dot products.

    Args:
        similarity: Shape (I, C), floating, finite; larger is closer. Equal numbers are ties.
        image_of_caption: Shape (C,), integers in [0, I), non-decreasing; every image has a caption.

    Raises:
        ValueError: If a shape is wrong or a similarity is not finite.
    """
    if similarity.dim() != 2 or similarity.shape[1:] != image_of_caption.shape:
        raise ValueError(
            f"similarity must have the shape (images, captions) with {len(image_of_caption):,} captions, got "
            f"{tuple(similarity.shape)}"
        )
    check_finite("similarity", similarity)
    own = similarity[image_of_caption, torch.arange(similarity.shape[1])]
    # The count includes the caption's own image, so the count is the rank.
    t2i = (similarity >= own).sum(0)
    is_other = image_of_caption != torch.arange(len(similarity))[:, None]
    others = similarity.masked_fill(~is_other, -torch.inf).sort(1).values
    i2t = torch.empty_like(t2i)
    for image, row in enumerate(others):
        mine = ~is_other[image]
        i2t[mine] = len(row) - torch.searchsorted(row, own[mine]) + 1
    return i2t, t2i


def order_positives(own: Tensor, image_of_caption: Tensor, image_count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Order captions by their images, and the captions of an image by their scores, the best first.

    Returns:
        The order, shape (C,); the place, from 0, of each ordered caption among the captions of its image, shape (C,);
        and the number of captions of each image, shape (I,).
    """
    order = own.argsort(descending=True)
    order = order[image_of_caption[order].argsort(stable=True)]
    counts = torch.bincount(image_of_caption, minlength=image_count)
    place = torch.arange(len(own), device=own.device) - (counts.cumsum(0) - counts)[image_of_caption[order]]
    return order, place, counts


def check_embeddings(images: Tensor, captions: Tensor, image_of_caption: Tensor) -> None:
    """Refuse shapes, indices and numbers out of the ranges of ``embedding_metrics`` by a ValueError."""
    shapes = f"{tuple(images.shape)}, {tuple(captions.shape)} and {tuple(image_of_caption.shape)}"
    if images.dim() != 2 or captions.dim() != 2 or images.shape[1] != captions.shape[1]:
        raise ValueError(f"images and captions must have the shapes (I, D) and (C, D), got {shapes}")
    if image_of_caption.shape != captions.shape[:1] or image_of_caption.is_floating_point():
        raise ValueError(f"image_of_caption must be integers of shape (C,), got {image_of_caption.dtype} with {shapes}")
    if image_of_caption.numel() == 0:
        raise ValueError(f"at least one image and one caption are needed, got {shapes}")
    lowest, highest = int(image_of_caption.min()), int(image_of_caption.max())
    if lowest < 0 or highest >= len(images):
        raise ValueError(f"image_of_caption must be in [0, {len(images)}), got {lowest} to {highest}")
    missing = (torch.bincount(image_of_caption, minlength=len(images)) == 0).nonzero().flatten().tolist()
    if missing:
        raise ValueError(f"every image needs at least one caption, got none for {missing[:5]}")
    check_finite("images", images)
    check_finite("captions", captions)


def check_finite(name: str, values: Tensor) -> None:
    """Refuse values that are not finite with a ValueError."""
    # The minimum and the maximum of values with a NaN are NaN, so both extremes show every NaN.
    if not all(bool(extreme.isfinite()) for extreme in values.aminmax()):
        raise ValueError(
            f"{name} must be finite, got {int((~values.isfinite()).sum())} of {values.numel()} that are not"
        )


def require_positives(positives: Tensor, *, of_captions: bool = True) -> None:
    """Refuse matching pairs, (I, C), with a row, or a column ``of_captions``, without a positive by a ValueError."""
    for dim, side in ((1, "image (row)"), (0, "caption (column)"))[: 1 + of_captions]:
        missing = (~positives.any(dim)).nonzero().flatten().tolist()
        if missing:
            raise ValueError(f"every {side} needs at least one positive, got none for {missing[:5]}")
