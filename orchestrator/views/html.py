"""A table of an answer for a page: a column is texts, or intervals on an axis whose range its ticks state."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.results.answer import Cell, Column, Quantity, Table
from orchestrator.text.wording import number_text, value_in_unit
from orchestrator.views.grid import INTERVAL, grid

TICKS = 4
"""Approximate number of ticks of an axis."""

BRIEF = 16
"""Most characters of the texts of a column that is as narrow as its texts."""

MARGIN = 6.0
"""Percent of an axis on either side of the intervals."""

Mark = tuple[float, float, float]
"""Left end and width of an interval, and the place of its value, in percent of the axis."""


@dataclass(frozen=True)
class Axis:
    """Intervals on one axis.

    Attributes:
        ticks: Place in percent, and the value there as text.
        marks: A mark for each row; ``None`` in a row without a value.
    """

    ticks: Sequence[tuple[float, str]]
    marks: Sequence[Mark | None]


@dataclass(frozen=True)
class PageColumn:
    """A column of a table on a page.

    Attributes:
        group: Heading above the headings of several columns; may be empty.
        kind: ``text``, ``text brief``, ``number``, ``verdict`` or ``axis``.
        texts: A text for each row.
        axis: The intervals of a column of kind ``axis``; ``None`` for others.
    """

    heading: str
    group: str
    kind: str
    texts: Sequence[str] = field(default=())
    axis: Axis | None = None


def page_columns(table: Table) -> list[PageColumn]:
    """Return the columns of a table that people see; intervals with a column of their own are also drawn."""
    shown, columns, place = grid(table), [], 0
    for index, column in enumerate(table.columns):
        if column.hidden:
            continue
        kind = "verdict" if column.key == "verdict" else "number" if shown.numeric[place] else "text"
        width = 2 if column.shows == "apart" and shown.headings[place + 1 : place + 2] == (INTERVAL,) else 1
        for heading in shown.headings[place : place + width]:
            texts = [row[place] for row in shown.rows]
            brief = " brief" if kind == "text" and all(len(text) <= BRIEF for text in texts) else ""
            columns.append(PageColumn(heading, shown.groups[place], kind + brief, texts))
            place += 1
        axis = _axis([row[index] for row in table.rows], column) if column.shows == "apart" else None
        if axis is not None:
            columns.append(PageColumn("", column.group, "axis", axis=axis))
    return columns


def _axis(cells: Sequence[Cell], column: Column) -> Axis | None:
    """Return the intervals of a column on an axis; ``None`` where all values are equal."""
    intervals = [_interval(cell) for cell in cells]
    ends = [end for interval in intervals if interval is not None for end in interval]
    if not ends or max(ends) <= min(ends):
        return None
    low, per_unit = min(ends), (100 - 2 * MARGIN) / (max(ends) - min(ends))

    def place(value: float) -> float:
        return round(MARGIN + (value - low) * per_unit, 2)

    def mark(left: float, value: float, right: float) -> Mark:
        return place(left), round((right - left) * per_unit, 2), place(value)

    marks = [None if interval is None else mark(*interval) for interval in intervals]
    ticks = [(place(value), text) for value, text in _ticks(low, max(ends), column)]
    return Axis(ticks, marks)


def _interval(cell: Cell) -> tuple[float, float, float] | None:
    """Return low, value and high of a cell; without an interval all three are the value."""
    if isinstance(cell, Quantity):
        known = cell.low is not None and cell.high is not None
        return (cell.low, cell.value, cell.high) if known else (cell.value,) * 3  # type: ignore[return-value]
    return (float(cell),) * 3 if isinstance(cell, int | float) else None


def _ticks(low: float, high: float, column: Column) -> list[tuple[float, str]]:
    """Return round values between two ends, with the digits in which they differ."""
    rough = (high - low) / TICKS
    power = math.floor(math.log10(rough))
    factor = next(factor for factor in (1, 2, 2.5, 5, 10) if 10.0**power * factor >= rough)
    step, decimals = 10.0**power * factor, max(0, (factor == 2.5) - power)
    values = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(value, number_text(value, column.unit, signed=column.signed, decimals=decimals)) for value in values]


def named_number(name: str, value: float) -> str:
    """Return a number of an answer by the unit that its name says.

    Example:
        >>> named_number("p_unadjusted", 0.00001), named_number("difference", 4.8761)
        ('< 0.001', '4.876')
    """
    unit = name.partition("_")[0]
    return value_in_unit(value, unit if unit in ("p", "probability", "share") else "number")
