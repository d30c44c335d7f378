"""A table of an answer as texts, shared by all forms that people read; the texts are not escaped yet."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.results.answer import TEXT, Cell, Column, Quantity, Table
from orchestrator.text.wording import MISSING, interval_text, one_line, value_in_unit

INTERVAL = "95 % CI"


@dataclass(frozen=True)
class TextColumn:
    """A column of a table as texts, one for each cell; ``heading`` may be ``INTERVAL``."""

    column: Column
    heading: str
    cells: Sequence[Cell]
    texts: Sequence[str]

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers, which are aligned to the right."""
        return self.column.unit != TEXT


def grid(table: Table) -> list[TextColumn]:
    """Return the columns of a table that people see; intervals may have a column of their own."""
    columns = []
    for place, column in enumerate(table.columns):
        if column.hidden:
            continue
        cells = [row[place] for row in table.rows]
        columns.append(TextColumn(column, column.heading, cells, [cell_text(cell, column) for cell in cells]))
        if column.shows == "apart" and any(isinstance(cell, Quantity) and cell.low is not None for cell in cells):
            columns.append(TextColumn(column, INTERVAL, cells, [_interval(cell, column) for cell in cells]))
    return columns


def rows_of(columns: Sequence[TextColumn]) -> list[tuple[str, ...]]:
    """Return the texts of columns row by row."""
    return list(zip(*(column.texts for column in columns), strict=True))


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


def _interval(cell: Cell, column: Column) -> str:
    if not isinstance(cell, Quantity) or cell.low is None or cell.high is None:
        return MISSING
    return interval_text(cell.low, cell.high, column.unit, signed=column.signed, decimals=column.decimals)
