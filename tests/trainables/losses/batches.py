"""Batches to try losses on: every shape of positives, and cosines with ties."""

import torch
from hypothesis import strategies as st
from torch import Tensor

COSINES = st.one_of(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), st.floats(-1, 1, allow_subnormal=False))


def one_to_one(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.bool)


def five_each(n: int, k: int = 5) -> Tensor:
    return torch.eye(n, dtype=torch.bool).repeat_interleave(k, 1)


def random_cosines(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) * 2 - 1


STRUCTURES = {
    "pairs": one_to_one(5),
    "permuted_pairs": one_to_one(5)[[2, 0, 4, 1, 3]],
    "captions": five_each(3, 3),
    "unequal_captions": torch.tensor([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 1]], dtype=torch.bool),
    "many_to_many": torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0]], dtype=torch.bool),
    "no_negatives": torch.ones(2, 3, dtype=torch.bool),
}

LABELS = torch.tensor([[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0]], dtype=torch.bool)
"""Images and all labels of a vocabulary, of which three are no image's: candidates of the images, and no queries."""

Drawn = tuple[Tensor, Tensor, Tensor]
"""Similarity, positives and ignore."""


@st.composite
def batches(draw: st.DrawFn) -> Drawn:
    """Draw a batch of a structure of ``STRUCTURES``."""
    positives = STRUCTURES[draw(st.sampled_from(tuple(STRUCTURES)))]
    numbers = st.lists(COSINES, min_size=positives.numel(), max_size=positives.numel())
    similarity = torch.tensor(draw(numbers), dtype=torch.float64).reshape(positives.shape)
    flags = st.lists(st.integers(0, 4), min_size=positives.numel(), max_size=positives.numel())
    ignore = (torch.tensor(draw(flags)) == 0).reshape(positives.shape) & ~positives
    return similarity, positives, ignore
