"""Batches by index: the order is drawn on the CPU, so it is the same for a seed on every device.

Images are requested a batch ahead, so that pixels are decoded while the model works on the batch before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.config import TrainingConfig
from trainables.data.resident import ResidentSplit, one_ahead


@dataclass(frozen=True)
class Batch:
    """The data of one training step.

    Attributes:
        images: Features, shape (I, D) or (I, R, D), float32; or pixels, shape (I, S, S, 3), uint8.
        tokens: Word ids, shape (C, T), int64, 0 after each caption's end; or the features of the captions, (C, D),
            float32, where the split has any.
        lengths: Tokens of each caption, shape (C,), int64, on the CPU.
        positives: Matching pairs, shape (I, C), bool.
        ignore: Pairs that are neither positive nor negative, shape (I, C), bool; ``None`` where there are none.
    """

    images: Tensor
    tokens: Tensor
    lengths: Tensor
    positives: Tensor
    ignore: Tensor | None


def epoch_batches(
    split: ResidentSplit, training: TrainingConfig, generator: torch.Generator, draw: int | None = None
) -> Iterator[Batch]:
    """Yield the batches of one epoch in the order that the generator, on the CPU, draws, of the views of ``draw``."""
    if split.labels is not None:
        return class_batches(split, split.labels, training.batch_size, training.captions_per_image, generator, draw)
    if training.batches == "images":
        return image_batches(split, training.batch_size, training.captions_per_image, generator, draw)
    order = order_pairs(split, training.batch_size, training.length_buckets, generator)
    return pair_batches(split, order, mask_duplicates=training.duplicates == "mask", draw=draw)


def order_pairs(split: ResidentSplit, batch_size: int, length_buckets: int, generator: torch.Generator) -> list[Tensor]:
    """Cut a random order of the captions into batches; the last one may be smaller.

    With ``length_buckets`` > 1, the captions of that many batches at a time are sorted by length before they are cut,
    and the batches are shuffled: each caption still comes once, beside captions of similar length, which saves padding.
    """
    order = torch.randperm(split.caption_count, generator=generator)
    if length_buckets == 1:
        return list(order.split(batch_size))
    sorted_parts = [part[split.lengths[part].argsort(stable=True)] for part in order.split(batch_size * length_buckets)]
    batches = [batch for part in sorted_parts for batch in part.split(batch_size)]
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def pair_batches(
    split: ResidentSplit, order: Iterable[Tensor], *, mask_duplicates: bool, draw: int | None = None
) -> Iterator[Batch]:
    """Yield image-caption pairs, a batch for each tensor of caption indices.

    Positives are the diagonal. Another caption of an image that is twice in the batch is ignored if
    ``mask_duplicates``, otherwise a negative, as in the published code. A batch of a single pair has nothing to
    compare with and is left out.
    """
    compared = (captions for captions in order if len(captions) > 1)
    owners = split.image_of_caption
    for captions, images in one_ahead((part, split.request_images(owners[part], draw)) for part in compared):
        yield _pair_batch(split, captions, images(), mask_duplicates=mask_duplicates)


def image_batches(
    split: ResidentSplit,
    batch_size: int,
    captions_per_image: int,
    generator: torch.Generator,
    draw: int | None = None,
) -> Iterator[Batch]:
    """Yield each image once, with its captions, or as many of them, drawn anew, as ``captions_per_image`` allows.

    The last batch may be smaller; one of a single image has nothing to compare with and is left out.
    """
    owners = split.image_of_caption
    counts = owners.bincount(minlength=split.image_count)
    firsts = counts.cumsum(0) - counts
    # A random key below 1 added to the image's index sorts by image, and at random within each.
    shuffled = (owners + torch.rand(len(owners), generator=generator, dtype=torch.float64)).argsort()
    order = torch.randperm(split.image_count, generator=generator).split(batch_size)
    compared = (part for part in order if len(part) > 1)
    for part, images in one_ahead((part, split.request_images(part, draw)) for part in compared):
        taken = counts[part].clamp(max=captions_per_image)
        places = torch.arange(captions_per_image).expand(len(part), -1)
        captions = shuffled[(firsts[part][:, None] + places)[places < taken[:, None]]]
        tokens, lengths = split.captions(captions)
        positives = part[:, None] == owners[captions]
        yield Batch(images(), tokens, lengths, positives.to(split.device), None)


def class_batches(
    split: ResidentSplit,
    labels: Tensor,
    batch_size: int,
    images_per_class: int,
    generator: torch.Generator,
    draw: int | None = None,
) -> Iterator[Batch]:
    """Yield each image once, beside others of its class: both sides of a batch are its images.

    The images of a class are cut at random into groups of ``images_per_class``, at least 2, and a batch is as many
    random groups as it has room for. The positives of an image are the others of its class; the image itself is
    ignored. A batch of one class has nothing to compare with and is left out.
    """
    groups = _class_groups(labels, max(images_per_class, 2), generator)
    shuffled = [groups[index] for index in torch.randperm(len(groups), generator=generator).tolist()]
    compared = (part for part in _packed(shuffled, batch_size) if len(labels[part].unique()) > 1)
    for part, images in one_ahead((part, split.request_images(part, draw)) for part in compared):
        tokens, lengths = split.captions(part)
        itself = split.diagonal(len(part))
        same = (labels[part][:, None] == labels[part]).to(split.device)
        yield Batch(images(), tokens, lengths, same & ~itself, itself)


def _class_groups(labels: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Cut the images of each class at random into groups of a size; none is left with one image alone."""
    order = torch.randperm(len(labels), generator=generator)
    order = order[labels[order].argsort(stable=True)]
    groups: list[Tensor] = []
    for of_class in order.split(labels.bincount().tolist()):
        parts = list(of_class.split(size))
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]
        groups += parts
    return groups


def _packed(groups: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Join groups to batches of at most a size, a larger group to a batch of its own."""
    batch: list[Tensor] = []
    for group in groups:
        if batch and sum(map(len, batch)) + len(group) > size:
            yield torch.cat(batch)
            batch = []
        batch.append(group)
    if batch:
        yield torch.cat(batch)


def _pair_batch(split: ResidentSplit, captions: Tensor, images: Tensor, *, mask_duplicates: bool) -> Batch:
    """Gather some captions (indices on the CPU) for their images."""
    owners = split.image_of_caption[captions]
    tokens, lengths = split.captions(captions)
    diagonal = split.diagonal(len(captions))
    same_image = owners[:, None] == owners
    # Decided on the CPU, where the owners lie: most batches hold no image twice and need no mask.
    has_duplicates = mask_duplicates and int(same_image.sum()) > len(captions)
    ignore = same_image.to(split.device) & ~diagonal if has_duplicates else None
    return Batch(images, tokens, lengths, diagonal, ignore)
