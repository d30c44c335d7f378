"""Reads JSON files of this software, which may have been damaged, changed or replaced."""

import json
from pathlib import Path
from typing import Any

LARGEST_STATE = 16 << 20
"""Most characters of such a file; this software writes no larger files."""


def read_state(path: Path, largest: int = LARGEST_STATE) -> Any:
    """Return the value in a JSON file.

    Args:
        path: The file, UTF-8.
        largest: Bytes that the file has at most.

    Raises:
        OSError: If the file is missing or cannot be read.
        ValueError: If the file is larger, is not UTF-8, or is no JSON; also if its values are nested too deeply, which
            is a ``RecursionError`` of Python's own reader.
    """
    with path.open("rb") as file:
        return parse_state(file.read(largest + 1), largest)


def parse_state(text: bytes | str, largest: int = LARGEST_STATE) -> Any:
    """Return the value of a JSON text; for errors see ``read_state``."""
    if len(text) > largest:
        raise ValueError(f"more than {largest >> 20} MB" if largest >= 1 << 20 else f"more than {largest:,} bytes")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None
