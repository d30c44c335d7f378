"""The batches of an epoch in buffers that keep their place, which a CUDA graph gathers itself.

Images and captions of all batches of an epoch lie on the device as indices, and a counter there selects the batch. So a
batch is gathered by operations of the device alone, whose shapes are the same in each step. Captions have the layout of
a ``LengthProfile``. A batch that is smaller than the others, or does not fit the profile, is no static batch.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from trainables.config import TrainingConfig
from trainables.data.batches import Batch, Indices, ResidentSplit, pairs_that_fit
from trainables.data.length_profile import LengthProfile, Lengths

SPARE = 4
"""Rows of the buffers after the last static batch, so that steps that are tried first find batches there."""


class StaticBatches:
    """Batches of one size, pairs or images with equally many captions each.

    Attributes:
        profile: Limits of the lengths of captions; ``None`` where captions are features.
        counter: Number of the batch in the buffers, shape (1,), int64, on the device.
    """

    def __init__(self, split: ResidentSplit, training: TrainingConfig) -> None:
        """Make the buffers; ``ResidentSplit.is_gathered_on_device`` holds for the split, which has a full batch."""
        self._split, self._training = split, training
        self._images = training.batch_size
        self._captions = training.pairs
        self.profile = None
        device = split.device
        if not split.has_caption_features:
            self.profile = LengthProfile.of_split(split.lengths, self._captions, device)
        count = split.image_count if training.batches == "images" else len(split.lengths)
        rows = count // self._images + SPARE
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        self._image_rows, self._views = (self._buffer(rows, self._images) for _ in range(2))
        self._caption_rows, self._order, self._places = (self._buffer(rows, self._captions) for _ in range(3))
        self._has_views = split.drawn_views(0) is not None and training.augment
        self._owners, self._lengths = split.image_of_caption.to(device), split.lengths.to(device)
        self._groups = split.image_groups.to(device)
        self._caption_groups = None if split.caption_groups is None else split.caption_groups.to(device)
        self._positives = split.diagonal(self._images)
        if training.batches == "images":
            self._positives = self._positives.repeat_interleave(training.captions_per_image, dim=1)

    def _buffer(self, rows: int, width: int) -> Tensor:
        return torch.zeros(rows, width, dtype=torch.int64, device=self._split.device)

    def is_static(self, indices: Indices) -> bool:
        """Whether a batch has the size and the lengths of the static batches."""
        if (len(indices.images), len(indices.captions)) != (self._images, self._captions):
            return False
        return self.profile is None or bool(self.profile.fits(self._split.lengths[indices.captions]))

    def fill(self, batches: Iterable[Indices], draw: int | None) -> None:
        """Put the static batches of an epoch into the buffers, in their order, and set the counter to the first."""
        batches = list(batches)
        self.counter.zero_()
        if not batches:
            return
        batches += batches[:1] * SPARE
        images, captions = (torch.stack(parts) for parts in zip(*batches, strict=True))
        order = self._split.lengths[captions].argsort(dim=-1, descending=True, stable=True)
        filled = [(self._image_rows, images), (self._caption_rows, captions)]
        filled += [(self._order, order), (self._places, order.argsort(dim=-1))]
        views = self._split.drawn_views(draw)
        if views is not None:
            filled.append((self._views, views[images]))
        for buffer, values in filled:
            buffer[: len(values)].copy_(values)

    def current(self) -> Batch:
        """Gather the batch of the counter."""
        images, views, captions, order, places = (
            buffer.index_select(0, self.counter)[0]
            for buffer in (self._image_rows, self._views, self._caption_rows, self._order, self._places)
        )
        values = self._lengths[captions]
        lengths: Lengths = values if self.profile is None else self.profile.laid(values, order, places)
        longest = 0 if self.profile is None else self.profile.longest
        image_groups, caption_groups = self._groups[images], self._groups[self._owners[captions]]
        ignore = None
        if self._training.duplicates == "mask":
            equal = None if self._caption_groups is None else self._caption_groups[captions]
            ignore = pairs_that_fit(image_groups, caption_groups, equal) & ~self._positives
        return Batch(
            images=self._split.gather_images(images, views if self._has_views else None),
            tokens=self._split.gather_captions(captions, values, longest),
            lengths=lengths,
            positives=self._positives,
            ignore=ignore,
            image_groups=image_groups,
            caption_groups=caption_groups,
        )

    def advance(self) -> None:
        """Let the counter select the next batch."""
        self.counter.add_(1)
