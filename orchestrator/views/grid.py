"""A table of an answer as texts, shared by all forms that people read; the texts are not escaped yet."""

from dataclasses import dataclass

from orchestrator.results.answer import TEXT, Cell, Column, Quantity, Table
from orchestrator.text.wording import MISSING, interval_text, one_line, value_in_unit

INTERVAL = "95 % CI"


@dataclass(frozen=True)
class Grid:
    """A table as texts.

    Attributes:
        groups: Text above each heading; may be empty.
        headings: A heading for each text column.
        latex: The heading of each text column in LaTeX, where it differs; else empty.
        numeric: Whether each text column holds numbers, which are aligned to the right.
        folds: Whether each text column holds sentences, which may be folded at words.
        rows: A text for each text column of each row.
    """

    groups: tuple[str, ...]
    headings: tuple[str, ...]
    latex: tuple[str, ...]
    numeric: tuple[bool, ...]
    folds: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


def grid(table: Table) -> Grid:
    """Return the texts of a table without its hidden columns; an interval may have a text column of its own."""
    places = [place for place, column in enumerate(table.columns) if not column.hidden]
    apart = {place for place in places if table.columns[place].shows == "apart" and _has_interval(table, place)}
    groups, headings, latex, numeric, folds = [], [], [], [], []
    for place in places:
        column = table.columns[place]
        for heading in (column.heading, *((INTERVAL,) if place in apart else ())):
            groups.append(column.group)
            headings.append(heading)
            latex.append(column.latex if heading == column.heading else "")
            numeric.append(column.unit != TEXT)
            folds.append(column.folds)
    rows = []
    for row in table.rows:
        texts: list[str] = []
        for place in places:
            texts.append(cell_text(row[place], table.columns[place]))
            texts += [_interval(row[place], table.columns[place])] if place in apart else []
        rows.append(tuple(texts))
    return Grid(tuple(groups), tuple(headings), tuple(latex), tuple(numeric), tuple(folds), tuple(rows))


def cell_text(cell: Cell, column: Column) -> str:
    """Return a cell as people read it; a dash where there is no value."""
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return one_line(cell)
    if not isinstance(cell, Quantity):
        return value_in_unit(cell, column.unit, signed=column.signed, decimals=column.decimals)
    text = value_in_unit(cell.value, column.unit, signed=column.signed, decimals=column.decimals)
    if cell.deviation is not None:
        text += f" ± {value_in_unit(cell.deviation, column.unit, decimals=column.decimals)}"
    return f"{text} {_interval(cell, column)}" if column.shows == "both" and cell.low is not None else text


def _has_interval(table: Table, place: int) -> bool:
    return any(isinstance(row[place], Quantity) and row[place].low is not None for row in table.rows)  # type: ignore[union-attr]


def _interval(cell: Cell, column: Column) -> str:
    if not isinstance(cell, Quantity) or cell.low is None or cell.high is None:
        return MISSING
    return interval_text(cell.low, cell.high, column.unit, signed=column.signed, decimals=column.decimals)
