"""A split as tensors on the device of its training, gathered by index, and the batches of an epoch.

On a CPU the words of captions stay memory-mapped; on a GPU they lie in its memory. Features lie in the memory of the
device where they are small enough. Other features are read from their file batch by batch; the system's cache of the
file serves all trials of a machine. Pixels are decoded from the image files. A ``draw`` is the seed of an epoch's
random views of the images; without it no view is random.

The order of batches is drawn on the CPU, so it is the same for a seed on every device. Images are requested a batch
ahead, so that pixels are decoded while the model works on the batch before.

References:
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, IJCAI 2011, section 3.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from trainables.config import TrainingConfig
from trainables.data.dataset import Split, members_of
from trainables.data.length_profile import Lengths
from trainables.data.npy_files import read_rows
from trainables.data.pictures import ImageFiles
from trainables.data.reading import Reading, View
from trainables.errors import ConfigError, DataError
from trainables.representations import CaptionInputs, Captions, ImageInputs, Sets
from trainables.seeding import generator

Item = TypeVar("Item")

COPIED_BYTES = 64 << 20
"""Bytes of a feature file that are in memory at a time on the way to a GPU."""

IN_MEMORY_BYTES = 192 << 20
"""Largest features of a split, in bytes, of which a process that trains on a CPU keeps its own copy.

Frozen features of both sides are as small (Flickr30k's captions, 512 numbers of float16 each: 141 MiB). Reading a batch
of them row by row took 1.8 ms, six times as long as from memory, and each stacked trial may have batches of its own.
"""

MOST_LABELS = 20_000
"""Most columns of a batch where captions are labels; a batch of 128 images has masks and scores of 10 MB each then."""


class ResidentSplit:
    """A split's images and captions as tensors, gathered by index.

    Attributes:
        image_of_caption: Index of each caption's image, shape (C,), int64, on the CPU.
        lengths: Tokens of each caption, shape (C,), int64, on the CPU.
        labels: Class of each image, shape (I,), int64, on the CPU; ``None`` unless the split has one modality.
        caption_labels: Label of each caption, shape (C,), int64, on the CPU; ``None`` unless captions are labels.
        image_groups: A number of each image that equal images share, shape (I,), int64, on the CPU.
        caption_groups: The same of each caption, shape (C,); ``None`` where no two captions are equal.
    """

    def __init__(self, split: Split, device: torch.device, reading: Reading = Reading()) -> None:
        """Place a split, as a model reads it."""
        if reading.number is not None:
            tokens, starts = reading.flat_tokens(split.captions)
            split = replace(split, tokens=tokens, offsets=starts)
        self.device, self.image_count = device, len(split.image_rows)
        self.image_of_caption = _tensor(split.image_of_caption)
        self.labels = None if split.labels is None else _tensor(split.labels)
        self.caption_labels = None if split.caption_labels is None else _tensor(split.caption_labels)
        if self.caption_labels is not None:
            self._first_of_label = first_places(self.caption_labels)
            self._label_counts = self.image_of_caption.bincount(minlength=self.image_count)
        offsets = _tensor(split.offsets)
        self.lengths = offsets[1:] - offsets[:-1]
        self._starts = offsets[:-1].to(device)
        self._tokens = _tensor(split.tokens).to(device)
        self._caption_features: _Rows | None = None
        if split.caption_features is not None and split.caption_rows is not None:
            self._caption_features = _Rows(split.caption_features, split.caption_rows, device)
        self._pixels: _Pixels | None = None
        if split.files is not None and reading.view is not None:
            self._pixels = _Pixels(split.files, split.image_rows, device, reading.view)
        self._features = _Rows(split.features, split.image_rows, device)
        self._feature_lengths = _lengths(split.feature_lengths, split.image_rows)
        self._columns = {
            key: (_Rows(column.values, column.rows, device), _lengths(column.lengths, column.rows))
            for key, column in split.columns.items()
        }
        self._token_numbers = {key: _tensor(values).to(device) for key, values in split.token_numbers.items()}
        self._caption_numbers = {key: _tensor(values).to(device) for key, values in split.caption_numbers.items()}
        self._views = None if split.views is None else _Rows(split.views, split.image_rows, device)
        self._view_count = 0 if split.views is None else split.views.shape[1]
        self._drawn: tuple[int | None, Tensor] = (None, self.lengths)
        self._diagonals: dict[int, Tensor] = {}
        self._set_groups(split)

    def _set_groups(self, split: Split) -> None:
        """Keep which images and captions are equal, where some are: most splits need no further masks."""
        members = members_of(split)
        self.image_groups = torch.arange(self.image_count)
        self.caption_groups: Tensor | None = None
        self._has_equal_images = split.labels is None and bool(members.equal_images)
        if split.labels is None:
            if self._has_equal_images:
                self.image_groups = torch.from_numpy(members.image_groups.astype(np.int64))
            if members.is_shared.any():
                self.caption_groups = torch.from_numpy(members.caption_groups.astype(np.int64))

    def groups_of(self, images: Tensor) -> Tensor:
        """Return a number of each image that equal images share, int64, of indices of any shape on the CPU."""
        return self.image_groups[images] if self._has_equal_images else images

    def fits(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return which captions fit which images, (I,) and (C,) indices on the CPU -> (I, C), bool, on the CPU.

        A caption fits an image if it is of the image, or of an equal image, or equals one of these captions that does.
        """
        if self.caption_labels is not None:
            return self._has_labels(images, self.caption_labels[captions])
        groups = None
        if self.caption_groups is not None:
            groups = self.caption_groups[captions]
            # A set of some hundred numbers takes a tenth of the time of a tensor's sort.
            groups = None if len({*groups.tolist()}) == len(groups) else groups
        owners = self.groups_of(self.image_of_caption[captions])
        return pairs_that_fit(self.groups_of(images), owners, groups)

    def candidates(self) -> Tensor:
        """Return the captions that are candidates, int64, on the CPU: all, or the first caption of each label, (L,)."""
        if self.caption_labels is None:
            return torch.arange(len(self.lengths))
        return self._first_of_label

    def columns_of_labels(self, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Return the columns of a batch of labels, each a caption, (L,), and the column of each drawn caption, (C,).

        All labels of the split are columns, as in [Weston2011]. Of more than ``MOST_LABELS`` these are the drawn labels
        and a sample of the others, which the drawn captions seed: a batch has the same columns on every device.
        """
        assert self.caption_labels is not None
        labels, count = self.caption_labels[drawn], len(self._first_of_label)
        if count <= MOST_LABELS:
            return self._first_of_label, labels
        distinct, column = labels.unique(return_inverse=True)
        others = torch.randperm(count, generator=generator(int(drawn.sum()), "labels"))
        others = others[~torch.isin(others, distinct)][: max(0, MOST_LABELS - len(distinct))]
        return self._first_of_label[torch.cat([distinct, others])], column

    def _has_labels(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return whether images (I,) have labels (C,), shape (I, C), whether or not such captions are in the batch."""
        assert self.caption_labels is not None
        counts = self._label_counts[images]
        rows = torch.arange(len(images)).repeat_interleave(counts)
        # The captions of an image are neighbours.
        firsts = (self._label_counts.cumsum(0) - self._label_counts)[images] - (counts.cumsum(0) - counts)
        captions = torch.arange(len(rows)) + firsts[rows]
        has = torch.zeros(len(images), len(self._first_of_label), dtype=torch.bool)
        has[rows, self.caption_labels[captions]] = True
        return has[:, labels]

    def diagonal(self, size: int) -> Tensor:
        """Return the identity matrix as bool, on the device: one tensor for each size, so losses check it once."""
        if size not in self._diagonals:
            # A training may use it after an evaluation, and can save no tensor of inference mode for a backward pass.
            with torch.inference_mode(False):
                self._diagonals[size] = torch.eye(size, dtype=torch.bool, device=self.device)
        return self._diagonals[size]

    def request_images(self, indices: Tensor, draw: int | None = None) -> Callable[[], ImageInputs]:
        """Begin to read some images, and return a function that waits for them.

        It returns shape (len(indices), ...), on the split's device: float32 features or views of pictures; sets of
        features where these have lengths; and where the split has further inputs all inputs by their names.
        """
        request = self._request_features(indices, draw)
        if not self._columns and self._feature_lengths is None:
            return request
        return partial(self._with_inputs, indices, request)

    def _with_inputs(self, indices: Tensor, features: Callable[[], Tensor]) -> ImageInputs:
        of_features = _sets(features(), self._feature_lengths, indices)
        if not self._columns:
            return of_features
        of_columns = {
            key: _sets(rows.gather(indices), lengths, indices) for key, (rows, lengths) in self._columns.items()
        }
        return {"features": of_features, **of_columns}

    def _request_features(self, indices: Tensor, draw: int | None) -> Callable[[], Tensor]:
        if self._pixels is not None:
            return self._pixels.request(indices, draw)
        views = self.drawn_views(draw)
        # An early start would gain nothing.
        return partial(self.gather_images, indices, None if views is None else views[indices])

    def image_chunks(self, size: int) -> Iterator[ImageInputs]:
        """Yield all images in their order, ``size`` at a time."""
        chunks = torch.arange(self.image_count).split(size)
        for images in one_ahead(self.request_images(chunk) for chunk in chunks):
            yield images()

    def captions(self, indices: Tensor) -> tuple[CaptionInputs, Tensor]:
        """Return captions on the device, and their tokens' numbers (C,) on the CPU.

        Captions are token ids (C, T), zero-padded to the longest; or features (C, D), float32, where the split has any;
        or ``Captions`` where it has further inputs.
        """
        lengths = self.lengths[indices]
        if self._caption_features is not None:
            return self._caption_features.gather(indices), lengths
        # Without waiting for the GPU's queue: the sent data are read before these calls return.
        ends, places = lengths.to(self.device, non_blocking=True), indices.to(self.device, non_blocking=True)
        return self.padded_captions(places, ends, int(lengths.max())), lengths

    def padded_captions(self, places: Tensor, lengths: Tensor, longest: int) -> CaptionInputs:
        """Return captions that have words, zero-padded to ``longest``; indices and lengths are on the device, (C,)."""
        positions = torch.arange(longest, device=self.device)
        inside = positions < lengths[:, None]
        where = self._starts[places][:, None] + positions
        tokens = self._tokens[where * inside].long() * inside
        if not self._token_numbers and not self._caption_numbers:
            return tokens
        of_tokens = {key: values[where * inside].long() * inside for key, values in self._token_numbers.items()}
        return Captions(tokens, of_tokens, {k: v[places].long() for k, v in self._caption_numbers.items()})

    @property
    def has_caption_features(self) -> bool:
        """Whether captions are features instead of words."""
        return self._caption_features is not None

    @property
    def is_gathered_on_device(self) -> bool:
        """Whether images and captions of a batch are plain tensors, which the device gathers without the CPU."""
        rows = [part for part in (self._features, self._views, self._caption_features) if part is not None]
        further = self._columns or self._token_numbers or self._caption_numbers
        is_plain = self._pixels is None and self._feature_lengths is None and not further
        return is_plain and all(part.is_resident for part in rows)

    def drawn_views(self, draw: int | None) -> Tensor | None:
        """Return which view of each image is trained on in an epoch, (I,), int64, on the CPU; ``None`` without views.

        Drawn once an epoch.
        """
        if draw is None or self._views is None:
            return None
        if self._drawn[0] != draw:
            generator = torch.Generator().manual_seed(draw)
            self._drawn = draw, torch.randint(self._view_count, (self.image_count,), generator=generator)
        return self._drawn[1]

    def gather_images(self, images: Tensor, views: Tensor | None) -> Tensor:
        """Return the features of some images, or one view of each, of indices on the device, (N,)."""
        if views is None or self._views is None:
            return self._features.gather(images)
        return self._views.gather(images, views)

    def gather_captions(self, places: Tensor, lengths: Tensor, longest: int) -> CaptionInputs:
        """Return captions or their features, of indices and lengths on the device, see ``padded_captions``."""
        if self._caption_features is not None:
            return self._caption_features.gather(places)
        return self.padded_captions(places, lengths, longest)


class _Pixels:
    """Views of a split's images, decoded by threads ahead of their use."""

    def __init__(self, files: ImageFiles, rows: np.ndarray, device: torch.device, view: View) -> None:
        self._files, self._rows, self._device, self._view = files, rows, device, view
        # As many threads as the trial has for its other work, which on a GPU only waits.
        self._pool = ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="decode")

    def request(self, indices: Tensor, draw: int | None) -> Callable[[], Tensor]:
        """Begin to decode images; return a function that waits for their views, (len(indices), ...).

        Its ``DataError`` names every image of the batch that cannot be read.
        """
        rows = self._rows[indices.numpy()].tolist()
        views = [self._pool.submit(self._files.read, row, self._view, draw) for row in rows]

        def collect() -> Tensor:
            errors = [error for view in views if (error := view.exception())]
            if problems := [problem for error in errors if isinstance(error, DataError) for problem in error.problems]:
                raise DataError(list(dict.fromkeys(problems)))
            return torch.from_numpy(np.stack([view.result() for view in views])).to(self._device)

        return collect


class _Rows:
    """Rows of an array: in the device's memory where they fit, else read from the file; all trials share its cache."""

    def __init__(self, array: np.ndarray, rows: np.ndarray, device: torch.device) -> None:
        self._array, self._rows, self._device = array, rows, device
        self._resident: Tensor | None = None
        # Half of a GPU's free memory is for model and activations.
        if device.type == "cuda" and 0 < 2 * len(rows) * array[:1].size <= torch.cuda.mem_get_info(device)[0] // 2:
            resident = copy_rows(array, rows, device)
            # A value beyond the range of float16 would become infinite; such features stay in their file.
            self._resident = resident if bool(resident.isfinite().all()) else None
        elif device.type == "cpu" and len(rows) * array[:1].nbytes <= IN_MEMORY_BYTES:
            self._resident = torch.from_numpy(read_rows(array, rows))

    @property
    def is_resident(self) -> bool:
        """Whether all rows are in the device's memory."""
        return self._resident is not None

    def gather(self, images: Tensor, views: Tensor | None = None) -> Tensor:
        """Return the rows of some images, or one view of each, float32, on the device.

        Indices are on the CPU, or on the device where the rows are resident.
        """
        if self._resident is not None:
            images = images.to(self._device, non_blocking=True)
            features = (
                self._resident.index_select(0, images)
                if views is None
                else self._resident[images, views.to(self._device, non_blocking=True)]
            )
            return features.to(torch.float32)
        rows = read_rows(self._array, self._rows[images.numpy()], None if views is None else views.numpy())
        # Converted after sending, so that float16 values are sent as float16.
        return torch.from_numpy(rows).to(self._device).to(torch.float32)


def pairs_that_fit(images: Tensor, owners: Tensor, captions: Tensor | None) -> Tensor:
    """Return which captions fit which images, (I, C), bool, on the device of the arguments.

    The groups of equal images, (I,), of the captions' images, (C,), and of equal captions, (C,), where some are equal.
    """
    fits = images[:, None] == owners
    return fits if captions is None else fits.float() @ (captions[:, None] == captions).float() > 0


def first_places(numbers: Tensor) -> Tensor:
    """Return where each different number is first, in the order of the numbers, (L,), of numbers (C,), int64."""
    order = numbers.argsort(stable=True)
    return order[numbers[order].diff(prepend=numbers.new_tensor([-1])) > 0]


def _lengths(lengths: np.ndarray | None, rows: np.ndarray) -> Tensor | None:
    """Return the sizes of the sets of a split's images, (I,), int64, on the CPU."""
    return None if lengths is None else torch.from_numpy(lengths[rows])


def _sets(vectors: Tensor, lengths: Tensor | None, images: Tensor) -> Tensor | Sets:
    """Return the sets of some images, of vectors (N, T, E) or (N, E); the vectors where they have no lengths."""
    if lengths is None:
        return vectors
    return Sets(vectors if vectors.dim() == 3 else vectors[:, None], lengths[images])


def copy_rows(array: np.ndarray, rows: np.ndarray, device: torch.device) -> Tensor:
    """Copy rows of an array to a device as float16, a part at a time, because they may exceed the machine's memory."""
    copied = torch.empty((len(rows), *array.shape[1:]), dtype=torch.float16, device=device)
    at_once = max(1, COPIED_BYTES // array[:1].nbytes)
    for start in range(0, len(rows), at_once):
        part = read_rows(array, rows[start : start + at_once])
        copied[start : start + at_once] = torch.from_numpy(part).to(torch.float16)
    return copied


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each item after the next item has been made, so that the next item's request is already running."""
    for item, _ in pairwise(chain(items, [None])):
        yield item  # type: ignore[misc]


def _tensor(array: np.ndarray) -> Tensor:
    """View an array as a tensor without copying; a read-only memory map stays one."""
    with warnings.catch_warnings():
        # torch warns that it can't forbid writing to a read-only array; no code here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


@dataclass(frozen=True)
class Batch:
    """The data of one training step.

    Attributes:
        images: Features, shape (I, D) or (I, R, D), float32, or sets of such; or views of pictures, (I, ...); or all
            inputs by their names, see ``ResidentSplit.request_images``.
        tokens: Word ids, shape (C, T), int64, 0 after each caption's end. Where the split has features of captions:
            these features, (C, D), float32. With further inputs of captions: ``Captions``.
        lengths: Tokens of each caption, shape (C,), int64, on the CPU; or laid out by a profile.
        positives: Matching pairs, shape (I, C), bool. Every image has one, and every caption that is no label.
        ignore: Pairs that are neither positive nor negative, shape (I, C), bool; ``None`` where there are none.
        image_groups: A number of each image that equal images of its split share, or its class where the split has
            classes, shape (I,), int64, on the CPU or the device.
        caption_groups: The same of each caption's image, shape (C,). An image and a caption of one group fit.
    """

    images: ImageInputs
    tokens: CaptionInputs
    lengths: Lengths
    positives: Tensor
    ignore: Tensor | None
    image_groups: Tensor
    caption_groups: Tensor


def count_steps(split: Split, training: TrainingConfig, seed: int = 0) -> int:
    """Return the steps of an epoch: batches of captions, or of images, without a last batch of a single item.

    Of images with classes, these are the steps of the first epoch of a training with the seed: batches of one class are
    left out, and how many there are depends on the draw.
    """
    if split.labels is not None:
        return len(compared_parts(torch.from_numpy(split.labels), training, generator(seed, "batches", 1)))
    count = len(split.image_rows) if training.batches == "images" else len(split.offsets) - 1
    whole, rest = divmod(count, training.batch_size)
    return whole + (rest > 1)


class Indices(NamedTuple):
    """The images, (I,), and captions, (C,), of a batch, int64, on the CPU; of pairs, C = I."""

    images: Tensor
    captions: Tensor


def draw_batches(split: ResidentSplit, training: TrainingConfig, generator: torch.Generator) -> list[Indices]:
    """Draw the batches of ``epoch_batches`` without gathering them, of a split without classes."""
    if training.batches == "images":
        return list(draw_images(split, training.batch_size, training.captions_per_image, generator))
    order = order_pairs(split, training.batch_size, training.length_buckets, generator)
    return [Indices(split.image_of_caption[captions], captions) for captions in order if len(captions) > 1]


def gather_batch(split: ResidentSplit, indices: Indices, training: TrainingConfig, draw: int | None) -> Batch:
    """Gather a batch of ``draw_batches`` as ``epoch_batches`` does."""
    images, mask = split.request_images(indices.images, draw)(), training.masks_duplicates
    if training.batches == "images":
        return _image_batch(split, indices, images, mask_duplicates=mask)
    return _pair_batch(split, indices.captions, images, mask_duplicates=mask)


def epoch_batches(
    split: ResidentSplit, training: TrainingConfig, generator: torch.Generator, draw: int | None = None
) -> Iterator[Batch]:
    """Yield the batches of one epoch in the order that the generator, on the CPU, draws, of the views of ``draw``."""
    if split.labels is not None:
        return class_batches(split, compared_parts(split.labels, training, generator), split.labels, draw)
    mask = training.masks_duplicates
    if training.batches == "images":
        return image_batches(
            split, training.batch_size, training.captions_per_image, generator, draw, mask_duplicates=mask
        )
    order = order_pairs(split, training.batch_size, training.length_buckets, generator)
    return pair_batches(split, order, mask_duplicates=mask, draw=draw)


def order_pairs(split: ResidentSplit, batch_size: int, length_buckets: int, generator: torch.Generator) -> list[Tensor]:
    """Cut a random order of the captions into batches; the last batch may be smaller.

    With ``length_buckets`` > 1, the captions of that many batches at a time are sorted by length before they are cut,
    and the batches are shuffled. Each caption still comes once, beside captions of similar length, which saves padding.
    """
    order = torch.randperm(len(split.lengths), generator=generator)
    if length_buckets == 1:
        return list(order.split(batch_size))
    sorted_parts = [part[split.lengths[part].argsort(stable=True)] for part in order.split(batch_size * length_buckets)]
    batches = [batch for part in sorted_parts for batch in part.split(batch_size)]
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def pair_batches(
    split: ResidentSplit, order: Iterable[Tensor], *, mask_duplicates: bool, draw: int | None = None
) -> Iterator[Batch]:
    """Yield image-caption pairs, a batch for each tensor of caption indices.

    Positives are the diagonal. Another caption that fits an image (``ResidentSplit.fits``), such as a caption of an
    image that is twice in the batch, is ignored if ``mask_duplicates``, otherwise a negative, as in the published code.
    A batch of a single pair has nothing to compare with and is left out.
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
    *,
    mask_duplicates: bool = True,
) -> Iterator[Batch]:
    """Yield each image once, with its captions, or as many of them, drawn anew, as ``captions_per_image`` allows.

    Captions of other images that fit an image (``ResidentSplit.fits``) are ignored if ``mask_duplicates``. The last
    batch may be smaller; one of a single image has nothing to compare with and is left out.
    """
    drawn = draw_images(split, batch_size, captions_per_image, generator)
    for indices, images in one_ahead((part, split.request_images(part.images, draw)) for part in drawn):
        yield _image_batch(split, indices, images(), mask_duplicates=mask_duplicates)


def draw_images(
    split: ResidentSplit, batch_size: int, captions_per_image: int, generator: torch.Generator
) -> Iterator[Indices]:
    """Draw the batches of ``image_batches``."""
    owners = split.image_of_caption
    counts = owners.bincount(minlength=split.image_count)
    firsts = counts.cumsum(0) - counts
    # A random key below 1 added to the image's index sorts by image, and at random within each.
    shuffled = (owners + torch.rand(len(owners), generator=generator, dtype=torch.float64)).argsort()
    order = torch.randperm(split.image_count, generator=generator).split(batch_size)
    for part in order:
        if len(part) > 1:
            taken = counts[part].clamp(max=captions_per_image)
            places = torch.arange(captions_per_image).expand(len(part), -1)
            yield Indices(part, shuffled[(firsts[part][:, None] + places)[places < taken[:, None]]])


def class_batches(
    split: ResidentSplit, parts: Iterable[Tensor], labels: Tensor, draw: int | None = None
) -> Iterator[Batch]:
    """Yield a batch for each tensor of image indices, see ``compared_parts``; both sides of a batch are its images.

    The positives of an image are the other images of its class; the image itself is ignored.
    """
    for part, images in one_ahead((part, split.request_images(part, draw)) for part in parts):
        tokens, lengths = split.captions(part)
        itself = split.diagonal(len(part))
        classes = labels[part]
        same_class = (classes[:, None] == classes).to(split.device, non_blocking=True)
        yield Batch(images(), tokens, lengths, same_class & ~itself, itself, classes, classes)


DRAWS = 100
"""Most draws of the batches of an epoch, of which the first with a batch of two classes is taken."""


def compared_parts(labels: Tensor, training: TrainingConfig, generator: torch.Generator) -> list[Tensor]:
    """Draw the batches of an epoch, each image beside others of its class, and return the images of each batch.

    The images of a class are cut at random into groups of ``training.captions_per_image``, at least 2. A batch is as
    many random groups as it has room for. A batch of one class has nothing to compare with and is left out; an epoch of
    such batches alone is drawn again. ``labels`` are the classes of the images, shape (I,), int64.

    Raises:
        ConfigError: If none of ``DRAWS`` draws has a batch of two classes.
    """
    size, images = training.batch_size, training.captions_per_image
    draws = (_drawn_parts(labels, size, max(images, 2), generator) for _ in range(DRAWS))
    if (parts := next(filter(None, draws), None)) is not None:
        return parts
    raise ConfigError(
        f"training.batch_size: no batch of {size} images has two classes, with {images} images of each "
        f"(captions_per_image); choose a larger batch_size"
    )


def _drawn_parts(labels: Tensor, batch_size: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """Draw the batches of an epoch, and return those with images of two classes at least."""
    groups = _class_groups(labels, size, generator)
    shuffled = [groups[index] for index in torch.randperm(len(groups), generator=generator).tolist()]
    return [part for part in _packed(shuffled, batch_size) if len(labels[part].unique()) > 1]


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


def _pair_batch(split: ResidentSplit, captions: Tensor, images: ImageInputs, *, mask_duplicates: bool) -> Batch:
    owners = split.image_of_caption[captions]
    if split.caption_labels is not None:
        own = torch.eye(len(captions), dtype=torch.bool)
        return _label_batch(split, Indices(owners, captions), images, own, mask_duplicates=mask_duplicates)
    tokens, lengths = split.captions(captions)
    diagonal = split.diagonal(len(captions))
    ignore = _also_fitting(split, owners, captions, diagonal) if mask_duplicates else None
    groups = split.groups_of(owners)
    return Batch(images, tokens, lengths, diagonal, ignore, groups, groups)


def _image_batch(split: ResidentSplit, indices: Indices, images: ImageInputs, *, mask_duplicates: bool) -> Batch:
    part, captions = indices
    owners = split.image_of_caption[captions]
    if split.caption_labels is not None:
        own = part[:, None] == owners
        return _label_batch(split, indices, images, own, mask_duplicates=mask_duplicates)
    tokens, lengths = split.captions(captions)
    positives = (part[:, None] == owners).to(split.device, non_blocking=True)
    ignore = _also_fitting(split, part, captions, positives) if mask_duplicates else None
    return Batch(images, tokens, lengths, positives, ignore, split.groups_of(part), split.groups_of(owners))


def _label_batch(
    split: ResidentSplit, indices: Indices, images: ImageInputs, own: Tensor, *, mask_duplicates: bool
) -> Batch:
    """Return a batch of ``ResidentSplit.columns_of_labels``; ``own`` are the drawn pairs, (I, C), its positives."""
    part, drawn = indices
    captions, column = split.columns_of_labels(drawn)
    rows, places = own.nonzero(as_tuple=True)
    positives = torch.zeros(len(part), len(captions), dtype=torch.bool)
    positives[rows, column[places]] = True
    tokens, lengths = split.captions(captions)
    ignore = split.fits(part, captions) & ~positives if mask_duplicates else None
    return Batch(
        images,
        tokens,
        lengths,
        positives.to(split.device, non_blocking=True),
        None if ignore is None else ignore.to(split.device, non_blocking=True),
        split.groups_of(part),
        split.groups_of(split.image_of_caption[captions]),
    )


def _also_fitting(split: ResidentSplit, images: Tensor, captions: Tensor, positives: Tensor) -> Tensor | None:
    """Return the pairs of a batch that fit beside the positives, (I, C), on the device; ``None`` where there are none.

    Decided on the CPU, where the indices lie: most batches need no mask. Each caption has one positive, on the device.
    """
    fits = split.fits(images, captions)
    return fits.to(split.device, non_blocking=True) & ~positives if int(fits.sum()) > len(captions) else None
