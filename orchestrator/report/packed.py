"""Compact data of a page: a repeated list is written once, and digits that no screen shows are dropped.

``data.js`` restores the lists.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

FEWEST = 8
"""Least number of items of a list that is written once."""

DIGITS = 6
"""Significant digits of a coordinate; the error is below a pixel on the widest screen."""

PLACE = "$list"
"""Key of the object that replaces a list, with the list's number."""


def packed(data: Any) -> dict[str, Any]:
    """Return plain values, in which each repeated long list is written once.

    Returns:
        ``lists``, the lists; and ``data``, in which ``{"$list": N}`` replaces the Nth list.
    """
    times = Counter(_long_lists(data))
    places: dict[str, int] = {}
    lists: list[Any] = []

    def pack(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: pack(inner) for name, inner in value.items()}
        if not isinstance(value, list | tuple):
            return value
        text = _text(value)
        if text is None or times[text] == 1:
            return [pack(item) for item in value]
        if text not in places:
            places[text] = len(lists)
            lists.append(value)
        return {PLACE: places[text]}

    return {"data": pack(data), "lists": lists}


def rounded(value: Any) -> Any:
    """Return plain values of a chart with as many digits as a screen shows."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def _long_lists(value: Any) -> Iterator[str]:
    """Yield the text of each list that could be written once."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _long_lists(inner)
    elif isinstance(value, list | tuple):
        text = _text(value)
        if text is not None:
            yield text
        else:
            for inner in value:
                yield from _long_lists(inner)


def _text(value: list[Any] | tuple[Any, ...]) -> str | None:
    """Return the JSON text of a list; ``None`` for a short list, and for a list that holds lists or objects."""
    if len(value) < FEWEST or any(isinstance(item, dict | list | tuple) for item in value):
        return None
    return json.dumps(value)
