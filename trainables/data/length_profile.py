"""A fixed profile of caption lengths, which gives all batches of one size one layout in memory.

A GRU reads the captions of a batch with the longest first, so that its t-th step has a row for each caption of at least
t tokens. The rows of the steps differ from batch to batch. A CUDA graph has fixed shapes, so a profile fixes the rows:
the r-th longest caption of a batch has at most n_r tokens, and the layout has n_r places for this caption. Tokens after
a caption's end are padding, whose states are never read. A batch in which a caption is longer does not fit.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import torch
from torch import Tensor

DRAWS = 1000
"""Random batches from which a profile is taken."""

SHARE = 0.99
"""Least share of these batches that fit their profile."""


class TokenLayout(NamedTuple):
    """Where the tokens of captions lie when all first tokens come first, the longest caption first in each step.

    Attributes:
        sizes: Rows of each step.
        firsts: First row of each step, shape (steps,), int64.
        rows: Place within its step of each row, shape (N,), int64.
        times: Step of each row, shape (N,), int64.
        order: Caption at each place, the longest first, shape (G, C), int64, of G groups of captions.
        places: Place of each caption, shape (G, C), int64.
    """

    sizes: list[int]
    firsts: Tensor
    rows: Tensor
    times: Tensor
    order: Tensor
    places: Tensor

    @classmethod
    def of_lengths(cls, lengths: Tensor) -> Self:
        """Lay out captions of these lengths, (G, C), int64; each step has as many rows as any group needs."""
        order = lengths.argsort(dim=-1, descending=True, stable=True)
        ordered = lengths.gather(-1, order)
        sizes = (ordered[:, None] > torch.arange(int(lengths.max()))[:, None]).sum(-1).amax(0)
        return cls(*_rows(sizes), order, order.argsort(dim=-1))

    def last_rows(self, lengths: Tensor) -> Tensor:
        """Return the row of each caption's last token, (G, C), for lengths (G, C) on the device of the layout."""
        return self.firsts[lengths - 1] + self.places


def _rows(sizes: Tensor) -> tuple[list[int], Tensor, Tensor, Tensor]:
    """Return the first four fields of a layout whose steps have so many rows, (steps,), int64."""
    firsts = sizes.cumsum(0) - sizes
    times = torch.arange(len(sizes)).repeat_interleave(sizes)
    return sizes.tolist(), firsts, torch.arange(len(times)) - firsts[times], times


@dataclass(frozen=True, eq=False)
class ProfiledLengths:
    """The lengths of a batch's captions, laid out by a profile.

    Attributes:
        values: Tokens of each caption, shape (C,), int64, on the device of the captions.
        layout: Places of the tokens, on the same device, of one group.
    """

    values: Tensor
    layout: TokenLayout


Lengths = Tensor | ProfiledLengths
"""Tokens of each caption, shape (C,), int64: on the CPU, or laid out by a profile on the device of the captions."""


class LengthProfile:
    """Limits of the lengths of a batch's captions, on a device.

    Attributes:
        limits: n_r, the most tokens of the r-th longest caption, shape (C,), int64, descending, on the CPU.
    """

    def __init__(self, limits: Tensor, device: torch.device) -> None:
        """Take the limits, all >= 1."""
        self.limits, self._device = limits, device
        self.captions, self.longest = len(limits), int(limits[0])

    @classmethod
    def of_split(cls, lengths: Tensor, captions: int, device: torch.device) -> Self:
        """Take a profile for batches of so many captions from the lengths of a split's captions, (N,) with N >= C.

        Of ``DRAWS`` random batches, at least ``SHARE`` fit. A limit is an upper quantile of the r-th longest caption,
        the same quantile for all r, as low as this share allows.
        """
        random = torch.Generator().manual_seed(0)
        drawn = [lengths[torch.randperm(len(lengths), generator=random)[:captions]] for _ in range(DRAWS)]
        ordered = torch.stack(drawn).sort(descending=True).values
        ranked = ordered.sort(dim=0).values
        low, high = 0, DRAWS - 1
        while low < high:
            middle = (low + high) // 2
            share = float((ordered <= ranked[middle]).all(1).double().mean())
            low, high = (low, middle) if share >= SHARE else (middle + 1, high)
        return cls(ranked[low], device)

    def fits(self, lengths: Tensor) -> Tensor:
        """Return whether batches fit, shape (...), bool, of lengths (..., C) on the CPU."""
        return (lengths.sort(descending=True).values <= self.limits).all(-1)

    def lay(self, lengths: Tensor) -> ProfiledLengths:
        """Lay out one batch that fits, of lengths (C,) on the CPU."""
        order = lengths.argsort(descending=True, stable=True)
        return self.laid(*(part.to(self._device) for part in (lengths, order, order.argsort())))

    def laid(self, lengths: Tensor, order: Tensor, places: Tensor) -> ProfiledLengths:
        """Return a batch's lengths with its order and places, see ``TokenLayout``, all of shape (C,) on the device."""
        return ProfiledLengths(lengths, TokenLayout(*self._fixed, order[None], places[None]))

    @cached_property
    def _fixed(self) -> tuple[list[int], Tensor, Tensor, Tensor]:
        sizes, *rows = _rows((self.limits > torch.arange(self.longest)[:, None]).sum(-1))
        firsts, places, times = (part.to(self._device) for part in rows)
        return sizes, firsts, places, times
