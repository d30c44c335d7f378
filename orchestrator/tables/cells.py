"""Formats numbers and names for a table that people read; the texts are not escaped yet."""

from dataclasses import dataclass
from pathlib import PurePath

from orchestrator.reference.published import DATASETS, LOSSES, MODELS
from orchestrator.results.statistics import Measure
from orchestrator.tables.layouts import Column
from orchestrator.tables.rows import Row
from orchestrator.tables.table import Table
from orchestrator.text.values import values_text, visible

MISSING = "–"
VERDICT = "Verdict"
"""Heading of the column of verdicts."""

PRINTED = {ours: printed for names in (DATASETS, MODELS, LOSSES) for printed, ours in names.items()} | {
    "flickr8k": "Flickr8k",
    "wsabie": "WSABIE",
    "scan": "SCAN",
    "gsmn": "GSMN",
    "polynomial_self": "Polynomial (self)",
    "polynomial_relative": "Polynomial (relative)",
    "warp": "WARP",
    "sigmoid": "Sigmoid",
    "decoupled": "Decoupled contrastive",
    "multi_similarity": "Multi-Similarity",
    "circle": "Circle",
    "triplet_selhn": "Triplet SelHN",
    "gradient_weights": "Gradient weights",
}
"""Our name -> printed name."""


def number(value: float, decimals: int) -> str:
    """Return a finite number with a fixed count of decimals, never ``-0.0``."""
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def spread(measure: Measure, decimals: int) -> str:
    """Return the standard deviation, empty if unknown."""
    return "" if measure.std is None else number(measure.std, decimals)


def mean_and_spread(measure: Measure | None, column: Column) -> str:
    """Return ``353.8 ± 1.6``, ``353.8`` or, without a number, a dash."""
    if measure is None:
        return MISSING
    deviation = spread(measure, column.decimals)
    return number(measure.mean, column.decimals) + (f" ± {deviation}" if deviation else "")


def one_line(text: str) -> str:
    """Return a text on one line, its control characters made visible."""
    return " ".join(visible(text).split())


def printed(name: str) -> str:
    """Return the printed name of a dataset, a model or a loss."""
    return PRINTED.get(name, one_line(name))


def dataset(row: Row) -> str:
    """Return the printed name of a dataset, or the last part of a path."""
    return printed(PurePath(row.dataset).name)


def parameters(row: Row) -> str:
    """Return hyper-parameters, e.g. ``margin 0.2``."""
    return one_line(values_text(row.parameters))


def loss(row: Row) -> str:
    """Return the loss, with a mark if the row is published."""
    return f"{printed(row.loss)} (published)" if row.published else printed(row.loss)


@dataclass(frozen=True)
class Grid:
    """A table as texts, shared by all formats with one line for each row.

    Attributes:
        groups: Text above each heading: ``i2t``, ``t2i`` or empty.
        headings: One heading for each column.
        rows: One text for each column.
        texts: How many columns from the left are no numbers.
    """

    groups: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int


def grid(table: Table) -> Grid:
    """Return the texts of a table; the column of verdicts is there only if some row has one."""
    columns = table.layout.columns
    verdicts = any(row.verdict for row in table.rows)
    heads = ("Dataset", "Model", "Loss", "#", "Hyper-parameters")
    return Grid(
        groups=("",) * len(heads) + tuple(column.direction for column in columns) + ("",) * verdicts,
        headings=heads + tuple(column.heading for column in columns) + (VERDICT,) * verdicts,
        rows=tuple(_texts(row, columns) + (one_line(row.verdict),) * verdicts for row in table.rows),
        texts=len(heads),
    )


def _texts(row: Row, columns: tuple[Column, ...]) -> tuple[str, ...]:
    about = (dataset(row), printed(row.model), loss(row), one_line(row.number), parameters(row))
    return about + tuple(mean_and_spread(row.measures.get(column.metric), column) for column in columns)
