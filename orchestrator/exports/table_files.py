"""Trials or epochs as one table in a file: CSV, Parquet, JSON lines."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrator.text.values import guarded

if TYPE_CHECKING:
    from pandas import DataFrame


def _as_csv(frame: "DataFrame") -> bytes:
    # The other two forms hold texts as texts, which no program takes for a formula.
    texts = frame.select_dtypes(exclude="number").columns
    safe = {name: frame[name].map(lambda cell: guarded(cell) if isinstance(cell, str) else cell) for name in texts}
    return bytes(frame.assign(**safe).to_csv(index=False).encode())


def _as_parquet(frame: "DataFrame") -> bytes:
    buffer = io.BytesIO()
    # A parameter may be a number in one loss and a word or a list in another loss; a column has one type.
    mixed = [name for name in frame if frame[name].dtype == object and frame[name].dropna().map(type).nunique() > 1]
    frame.assign(**{name: frame[name].map(str, na_action="ignore") for name in mixed}).to_parquet(buffer, index=False)
    return buffer.getvalue()


def _as_lines(frame: "DataFrame") -> bytes:
    return bytes(frame.to_json(orient="records", lines=True).encode())


WRITERS: dict[str, Callable[["DataFrame"], bytes]] = {".csv": _as_csv, ".parquet": _as_parquet, ".jsonl": _as_lines}
"""Ending of a file -> function that makes its content."""
