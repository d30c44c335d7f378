"""The metrics of an epoch, whose numbers are parsed only on access.

A long journal consists mostly of metrics: for 5,000 trials, 60 MB in 40,000 epochs. Most readers need one number of
each epoch, and all numbers of few epochs.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec


class Metrics(Mapping[str, float]):
    """Numbers by name, from the text of a JSON object that holds nothing but numbers.

    Args:
        text: Text of the object, as the journal writes it: without white space, in ASCII.
    """

    __slots__ = ("_text", "_values")

    def __init__(self, text: bytes) -> None:
        self._text = text
        # Of an object or a list inside, which no version writes, ``get`` would find the numbers.
        is_flat = text.rfind(b"{") == 0 and b"[" not in text
        self._values: dict[str, float] | None = None if is_flat else msgspec.json.decode(text)

    def __getitem__(self, name: str) -> float:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        number: float = found
        return number

    def get(self, name: str, default: Any = None) -> Any:
        """Return the number of a name, or the default where the name is missing."""
        # Read the text first: another thread that parses all numbers sets the values before it drops the text.
        text, values = self._text, self._values
        if values is not None:
            return values.get(name, default)
        first, later = _keys(name)
        place = text.find(later)
        if place >= 0:
            return _number_at(text, place + len(later))
        return _number_at(text, len(first)) if text.startswith(first) else default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def _read(self) -> dict[str, float]:
        """Parse all numbers and drop the text."""
        text, values = self._text, self._values
        if values is None:
            self._values = values = msgspec.json.decode(text)
            self._text = b""
        return values


def _number_at(text: bytes, start: int) -> float:
    end = text.find(b",", start)
    number = text[start : end if end >= 0 else -1]
    return float(number) if b"." in number or b"e" in number else int(number)


@lru_cache(maxsize=256)
def _keys(name: str) -> tuple[bytes, bytes]:
    """Return how the text writes a name: as the first name, and after another number.

    Neither text can occur inside another name, because a quotation mark in a name follows a backslash.
    """
    written = json.dumps(name).encode() + b":"
    return b"{" + written, b"," + written
