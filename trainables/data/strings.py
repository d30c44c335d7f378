"""Many strings in one flat array: memory-mapped, shared between processes, decoded one at a time."""

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np


class Strings(Sequence[str]):
    """A sequence of strings, stored as UTF-8 bytes one after the other.

    Attributes:
        data: The bytes of all strings, shape (B,), uint8.
        offsets: String i is ``data[offsets[i]:offsets[i + 1]]``; shape (N + 1,), int64.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def pack(cls, strings: Iterable[str]) -> "Strings":
        """Copy strings into flat arrays."""
        encoded = [string.encode() for string in strings]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Strings": ...
    def __getitem__(self, index: int | slice) -> "str | Strings":
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return Strings.pack(self[i] for i in range(start, stop, step))
            return Strings(self.data, self.offsets[start : max(start, stop) + 1])
        position = range(len(self))[index]
        return self.data[self.offsets[position] : self.offsets[position + 1]].tobytes().decode()

    def __repr__(self) -> str:
        return f"Strings({len(self)})"
