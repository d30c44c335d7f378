"""Batches by index: the split lies where it is trained, and a batch is a gather, not a data loader.

Captions and features stay memory-mapped on the CPU, shared by all trials of a machine, or lie on the GPU once. The
order is drawn on the CPU, so it is the same for a seed on every device.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.config import TrainingConfig
from trainables.data.dataset import Split


@dataclass(frozen=True)
class Batch:
    """What one step trains on.

    Attributes:
        images: Features, shape (I, D) or (I, R, D), float32.
        tokens: Word ids, shape (C, T), int64, 0 after each caption's end.
        lengths: Tokens of each caption, shape (C,), int64, on the CPU.
        positives: Matching pairs, shape (I, C), bool.
        ignore: Pairs that are neither positive nor negative, shape (I, C), bool; ``None`` where there are none.
    """

    images: Tensor
    tokens: Tensor
    lengths: Tensor
    positives: Tensor
    ignore: Tensor | None


class ResidentSplit:
    """A split's features and captions as tensors, gathered by index.

    Attributes:
        image_of_caption: Index of each caption's image, shape (C,), int64, on the CPU.
        lengths: Tokens of each caption, shape (C,), int64, on the CPU.
    """

    def __init__(self, split: Split, device: torch.device) -> None:
        self.device = device
        self.image_of_caption = _tensor(split.image_of_caption)
        offsets = _tensor(split.offsets)
        self.lengths = offsets[1:] - offsets[:-1]
        self._starts = offsets[:-1].to(device)
        self._tokens = _tensor(split.tokens).to(device)
        self._features, self._rows = _place_features(split, device)
        self._diagonals: dict[int, Tensor] = {}

    @property
    def image_count(self) -> int:
        """Number of images."""
        return self._rows.numel()

    @property
    def caption_count(self) -> int:
        """Number of captions."""
        return self.lengths.numel()

    def diagonal(self, size: int) -> Tensor:
        """Return the identity of a size as bool, on the device: one tensor a size, so losses check it once."""
        if size not in self._diagonals:
            self._diagonals[size] = torch.eye(size, dtype=torch.bool, device=self.device)
        return self._diagonals[size]

    def images(self, indices: Tensor) -> Tensor:
        """Return the features of some images, shape (len(indices), ...), float32, on the split's device."""
        return self._features[self._rows[indices.to(self._rows.device)]].to(self.device, torch.float32)

    def captions(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return token ids (C, T), zero-padded to the longest, on the device, and lengths (C,) on the CPU."""
        lengths = self.lengths[indices]
        positions = torch.arange(int(lengths.max()), device=self.device)
        inside = positions < lengths.to(self.device)[:, None]
        where = self._starts[indices.to(self.device)][:, None] + positions
        return self._tokens[where * inside].long() * inside, lengths


def epoch_batches(split: ResidentSplit, training: TrainingConfig, generator: torch.Generator) -> Iterator[Batch]:
    """Yield the batches of one epoch in the order that the generator, on the CPU, draws."""
    if training.batches == "images":
        return image_batches(split, training.batch_size, training.captions_per_image, generator)
    order = order_pairs(split, training.batch_size, training.length_buckets, generator)
    return pair_batches(split, order, mask_duplicates=training.duplicates == "mask")


def order_pairs(split: ResidentSplit, batch_size: int, length_buckets: int, generator: torch.Generator) -> list[Tensor]:
    """Cut a random order of the captions into batches; the last one may be smaller.

    With ``length_buckets`` > 1, so many batches at a time are sorted by length before they are cut, and the batches
    are shuffled: each caption still comes once, beside captions of about its length, which saves padding.
    """
    order = torch.randperm(split.caption_count, generator=generator)
    if length_buckets == 1:
        return list(order.split(batch_size))
    sorted_parts = [part[split.lengths[part].argsort(stable=True)] for part in order.split(batch_size * length_buckets)]
    batches = [batch for part in sorted_parts for batch in part.split(batch_size)]
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def pair_batches(split: ResidentSplit, order: Iterable[Tensor], *, mask_duplicates: bool) -> Iterator[Batch]:
    """Yield image-caption pairs, a batch for each tensor of caption indices.

    Positives are the diagonal. Another caption of an image that is twice in the batch is ignored if
    ``mask_duplicates``, otherwise a negative, as in the published code. A batch of a single pair has nothing to
    compare with and is left out.
    """
    for captions in order:
        if len(captions) > 1:
            yield _pair_batch(split, captions, mask_duplicates=mask_duplicates)


def image_batches(
    split: ResidentSplit, batch_size: int, captions_per_image: int, generator: torch.Generator
) -> Iterator[Batch]:
    """Yield each image once, with its captions, or as many of them, drawn anew, as ``captions_per_image`` allows.

    The last batch may be smaller; one of a single image has nothing to compare with and is left out.
    """
    owners = split.image_of_caption
    counts = owners.bincount(minlength=split.image_count)
    firsts = counts.cumsum(0) - counts
    # A random key below 1 added to the image's index sorts by image, and at random within each.
    shuffled = (owners + torch.rand(len(owners), generator=generator, dtype=torch.float64)).argsort()
    for images in torch.randperm(split.image_count, generator=generator).split(batch_size):
        if len(images) > 1:
            taken = counts[images].clamp(max=captions_per_image)
            places = torch.arange(captions_per_image).expand(len(images), -1)
            captions = shuffled[(firsts[images][:, None] + places)[places < taken[:, None]]]
            tokens, lengths = split.captions(captions)
            positives = images[:, None] == owners[captions]
            yield Batch(split.images(images), tokens, lengths, positives.to(split.device), None)


def _pair_batch(split: ResidentSplit, captions: Tensor, *, mask_duplicates: bool) -> Batch:
    """Gather some captions (indices on the CPU), each with its image."""
    owners = split.image_of_caption[captions]
    tokens, lengths = split.captions(captions)
    diagonal = split.diagonal(len(captions))
    same_image = owners[:, None] == owners
    # Decided on the CPU, where the owners lie: most batches hold no image twice and need no mask.
    has_duplicates = mask_duplicates and int(same_image.sum()) > len(captions)
    ignore = same_image.to(split.device) & ~diagonal if has_duplicates else None
    return Batch(split.images(owners), tokens, lengths, diagonal, ignore)


def _place_features(split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the feature rows and each image's row in them: on a GPU as float16 where they fit, else memory-mapped."""
    rows = _tensor(split.image_rows)
    features = _tensor(split.features)
    if device.type != "cuda":
        return features, rows
    needed = 2 * len(rows) * features[0].numel()
    free, _ = torch.cuda.mem_get_info(device)
    # Half of what is free: the other half is for the model, its optimiser and the activations.
    if needed > free // 2:
        return features, rows
    return features[rows].to(device, torch.float16), torch.arange(len(rows), device=device)


def _tensor(array: np.ndarray) -> Tensor:
    """View an array as a tensor without copying; a read-only memory map stays one."""
    with warnings.catch_warnings():
        # torch warns that it can't forbid writing to a read-only array; nothing here writes to one.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
