"""Encoded images and captions: a vector, or a set of vectors, for each.

A model whose similarity is a dot product of vectors returns tensors (N, E). A model that compares regions with words
returns padded ``Sets`` for a batch. A split is kept as ``PackedSets``, without padding. For example, 25,000 captions of
13 words with 1,024 dimensions take 1.3 GB packed, and 5 GB padded to a longest caption of 50 words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

LENGTHS = ".lengths"
"""Ending that the name of the sets' lengths adds to the name of the sets' vectors in a file."""


@dataclass(frozen=True, eq=False)
class Sets:
    """Sets of vectors, padded to the largest set.

    Attributes:
        vectors: Shape (N, T, E), floating; of stacked models (K, N, T, E). Vectors after the end of a set are 0.
        lengths: Number of vectors of each set, int64 on the CPU, in [0, T], shape (N,); of stacked models (K, N), or
            (1, N) where the sets of all models have equal lengths.
    """

    vectors: Tensor
    lengths: Tensor

    @cached_property
    def inside(self) -> Tensor:
        """Which vectors belong to a set, bool, in the shape of ``lengths`` and T, on the device of the vectors."""
        places = torch.arange(self.vectors.shape[-2], device=self.vectors.device)
        return places < self.lengths.to(self.vectors.device, non_blocking=True)[..., None]


def as_sets(features: Tensor | Sets) -> Sets:
    """Return features (..., N, T, E) as sets that all have T members; sets are returned as they are."""
    if isinstance(features, Sets):
        return features
    return Sets(features, torch.full(features.shape[:-2], features.shape[-2]))


@dataclass(frozen=True, eq=False)
class PackedSets:
    """Sets of vectors without padding.

    Attributes:
        vectors: Vectors of all sets one after another, shape (sum of the lengths, E), floating.
        lengths: Number of vectors of each set, shape (N,), int64, on the CPU, >= 1.
    """

    vectors: Tensor
    lengths: Tensor

    @classmethod
    def pack(cls, parts: Iterable[Sets]) -> Self:
        """Join sets, in their order."""
        parts = list(parts)
        vectors = torch.cat([part.vectors[part.inside] for part in parts])
        return cls(vectors, torch.cat([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, places: slice | Tensor) -> "PackedSets":
        """Return some sets, chosen by a slice, indices or a mask."""
        chosen = torch.arange(len(self))[places.cpu() if isinstance(places, Tensor) else places]
        lengths = self.lengths[chosen]
        firsts = (self.lengths.cumsum(0) - self.lengths)[chosen]
        ends = lengths.cumsum(0)
        rows = torch.arange(int(lengths.sum())) + (firsts - ends + lengths).repeat_interleave(lengths)
        return PackedSets(self.vectors[rows.to(self.vectors.device)], lengths)

    def padded(self) -> Sets:
        """Return the sets padded."""
        inside = torch.arange(int(self.lengths.max())) < self.lengths[:, None]
        vectors = self.vectors.new_zeros(*inside.shape, self.vectors.shape[-1])
        vectors[inside.to(vectors.device)] = self.vectors
        return Sets(vectors, self.lengths)


ImageInputs = Tensor | Sets | Mapping[str, Tensor | Sets]
"""What a model reads of I images: features (I, ...); sets of features where they have lengths; or, for a model with
further inputs, each input by its name (``trainables.data.inputs.INPUTS``), the features as ``features``."""


@dataclass(frozen=True, eq=False)
class Captions:
    """What a model with further inputs of captions reads of C captions.

    Attributes:
        tokens: Word ids (C, T), int64, zero-padded.
        of_tokens: Input -> whole numbers of each token, (C, T), int64, 0 after a caption's end.
        of_captions: Input -> whole numbers of each caption, (C, ...), int64.
    """

    tokens: Tensor
    of_tokens: Mapping[str, Tensor] = field(default_factory=dict)
    of_captions: Mapping[str, Tensor] = field(default_factory=dict)


CaptionInputs = Tensor | Captions
"""What a model reads of C captions: word ids (C, T) or features (C, D); with further inputs, ``Captions``."""


def part_of(inputs: Any, places: slice) -> Any:
    """Return the inputs, or the lengths, of some of a batch's images, or captions."""
    if isinstance(inputs, Tensor):
        return inputs[places]
    if isinstance(inputs, Sets):
        return Sets(inputs.vectors[places], inputs.lengths[places])
    if isinstance(inputs, Captions):
        of_tokens, of_captions = part_of(inputs.of_tokens, places), part_of(inputs.of_captions, places)
        return Captions(inputs.tokens[places], of_tokens, of_captions)
    return {name: part_of(values, places) for name, values in inputs.items()}


def joined(parts: Sequence[Tensor | Sets]) -> Tensor | Sets:
    """Join the encoded parts of a batch, vectors (N, E) or sets of vectors, in their order."""
    if isinstance(parts[0], Tensor):
        return torch.cat([part for part in parts if isinstance(part, Tensor)])
    sets = [part for part in parts if isinstance(part, Sets)]
    longest = max(part.vectors.shape[1] for part in sets)
    padded = [pad(part.vectors, (0, 0, 0, longest - part.vectors.shape[1])) for part in sets]
    return Sets(torch.cat(padded), torch.cat([part.lengths for part in sets]))


def stack_images(parts: Sequence[ImageInputs]) -> Tensor | Sets:
    """Return what K stacked models read of their images, with a leading dimension of K; of features alone."""
    if isinstance(parts[0], Sets):
        sets = [part for part in parts if isinstance(part, Sets)]
        return Sets(torch.stack([part.vectors for part in sets]), torch.stack([part.lengths for part in sets]))
    return torch.stack([part for part in parts if isinstance(part, Tensor)])


Gallery = Tensor | PackedSets
"""All images, or all captions, of a split: vectors (N, E), or sets of vectors."""


def converted(gallery: Gallery, convert: Callable[[Tensor], Tensor]) -> Gallery:
    """Return a gallery whose numbers are converted, e.g. to another precision or device."""
    if isinstance(gallery, PackedSets):
        return PackedSets(convert(gallery.vectors), gallery.lengths)
    return convert(gallery)


def is_finite(gallery: Gallery) -> bool:
    """Say whether all numbers of a gallery are finite."""
    vectors = gallery.vectors if isinstance(gallery, PackedSets) else gallery
    return bool(vectors.isfinite().all())


def to_tensors(name: str, gallery: Gallery) -> dict[str, Tensor]:
    """Return name in a file -> tensor of a gallery."""
    if isinstance(gallery, PackedSets):
        return {name: gallery.vectors, name + LENGTHS: gallery.lengths}
    return {name: gallery}


def from_tensors(name: str, tensors: dict[str, Tensor]) -> Gallery:
    """Return the gallery of ``to_tensors`` (``KeyError`` if none has the name)."""
    lengths = tensors.get(name + LENGTHS)
    return tensors[name] if lengths is None else PackedSets(tensors[name], lengths)
