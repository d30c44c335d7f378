"""The metrics of an epoch and the lines of a journal that hold them, whose numbers are parsed only on access.

A long journal consists mostly of metrics: for 5,000 trials, 60 MB in 40,000 epochs. Most readers need one number of
each epoch, and all numbers of few epochs.

Fast reading of the lines of epochs, the most frequent lines in a journal, without parsing their numbers.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from orchestrator.journal.trial import TrialState
from orchestrator.journal.trial_records import EpochEnded


class Metrics(Mapping[str, float]):
    """Numbers by name, from the text of a JSON object that holds nothing but numbers.

    Args:
        text: Text of the object, as the journal writes it: without white space, in ASCII.
    """

    __slots__ = ("_text", "_values")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._values: dict[str, float] | None = None

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
            self._values = values = from_json(text)
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


# The possessive ``++`` does not backtrack: no digit can follow a number, and lines that do not match fail sooner.
_NUMBER = rb"-?[0-9]++(?:\.[0-9]++)?(?:e[+-]?[0-9]++)?"

_HEAD = re.compile(
    rb'\{"n":([0-9]++),"time":(%b),(?:"elapsed":(%b),)?"kind":"epoch",'
    rb'"trial":"([^"\\]++)","epoch":([0-9]++),"metrics":(?=\{)' % (_NUMBER, _NUMBER)
)
"""The part before the metrics, as ``Journal.append`` writes it."""

_AFTER = b',"state":"'
"""The part between the metrics and the state; a quotation mark ends the state."""

_STATES = {b'%b"' % state.encode(): state for state in TrialState}


def read_epoch(body: bytes) -> EpochEnded | None:
    """Return the record of a line, or ``None`` where the line is no epoch in the form that this version writes.

    Args:
        body: The line without its checksum and closing brace.
    """
    head = _HEAD.match(body)
    if head is None:
        return None
    end = body.rfind(_AFTER)
    metrics, state = body[head.end() : end], body[end + len(_AFTER) :]
    # ``Metrics`` reads only numbers, neither objects nor lists.
    is_flat = metrics.endswith(b"}") and metrics.rfind(b"{") == 0 and b"[" not in metrics
    if not is_flat or state not in _STATES:
        return None
    number, time, elapsed, trial, epoch = head.groups()
    return EpochEnded(
        n=int(number),
        time=float(time),
        elapsed=None if elapsed is None else float(elapsed),
        trial=trial.decode(),
        epoch=int(epoch),
        metrics=Metrics(metrics),
        state=_STATES[state],
    )
