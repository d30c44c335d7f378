"""Reads JSON files of this software, which may have been damaged, changed or replaced."""

import json
from pathlib import Path
from typing import Any

LARGEST_STATE = 16 << 20
"""Largest size of a file in bytes; this software writes no larger JSON files."""


def read_state(path: Path, largest: int = LARGEST_STATE) -> Any:
    """Return the value in a JSON file.

    Args:
        path: The file, UTF-8.
        largest: Largest accepted size of the file in bytes.

    Raises:
        OSError: If the file is missing or cannot be read.
        ValueError: If the file is too large, not UTF-8 or no JSON, or its values are nested too deeply (for which
            Python's own reader raises ``RecursionError``).
    """
    with path.open("rb") as file:
        return parse_state(file.read(largest + 1), largest)


def parse_state(text: bytes | str, largest: int = LARGEST_STATE) -> Any:
    """Return the value of a JSON text; raises the ``ValueError`` of ``read_state``."""
    if len(text) > largest:
        raise ValueError(f"more than {largest >> 20} MB" if largest >= 1 << 20 else f"more than {largest:,} bytes")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None
