"""Draws tables on a terminal, and makes them narrow enough for it.

A table for a narrow terminal: as many columns as fit, the rest below, and nothing cut off.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.tables.cells import VERDICT, Grid, grid
from orchestrator.tables.table import Table
from orchestrator.text.terminal import make_console

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable


FIRST = ("rsum", VERDICT)
"""Headings of the most important columns, which come first if not all columns fit."""

LONG = "Hyper-parameters"
"""Heading of the column that is written as lines below."""

BETWEEN = 3
"""Characters that the frame of a terminal's table takes for each column."""


@dataclass(frozen=True)
class Narrow:
    """A table in parts.

    Attributes:
        common: Values that all rows share, e.g. ``Dataset Flickr8k, Model VSE++``; may be empty.
        grids: The parts from top to bottom; each begins with the columns that distinguish the rows.
        lines: Hyper-parameters, a line for each row; empty if the table has none.
    """

    common: str
    grids: tuple[Grid, ...]
    lines: tuple[str, ...]


def width_of(grid: Grid) -> int:
    """Return how many characters wide a terminal draws a table."""
    return _width(grid, range(len(grid.headings)))


def narrowed(grid: Grid, width: int) -> Narrow:
    """Return a table in parts of at most ``width`` characters; a column that is wider by itself has its own part."""
    if width_of(grid) <= width:
        return Narrow("", (grid,), ())
    texts, long = range(grid.texts), grid.headings.index(LONG)
    differing = [column for column in texts if len({row[column] for row in grid.rows}) > 1 and column != long]
    common = ", ".join(
        f"{grid.headings[column]} {grid.rows[0][column]}"
        for column in texts
        if grid.rows and column not in differing and column != long and grid.rows[0][column]
    )
    keys = differing or [texts[0]]
    others = sorted(range(grid.texts, len(grid.headings)), key=lambda column: grid.headings[column] not in FIRST)
    parts = [_part(grid, [*keys, *columns], len(keys)) for columns in _packed(grid, keys, others, width)]
    lines = [
        f"{' '.join(filter(None, (row[column] for column in keys)))}: {row[long]}" for row in grid.rows if row[long]
    ]
    return Narrow(common, tuple(parts), tuple(lines))


def _packed(grid: Grid, keys: Sequence[int], columns: Sequence[int], width: int) -> list[list[int]]:
    """Return columns in groups that fit beside the keys, at least one in each."""
    groups: list[list[int]] = [[]]
    for column in columns:
        if groups[-1] and _width(grid, [*keys, *groups[-1], column]) > width:
            groups.append([])
        groups[-1].append(column)
    return groups


def _part(grid: Grid, columns: Sequence[int], texts: int) -> Grid:
    """Return some columns of a table, of which so many from the left are no numbers."""
    return Grid(
        groups=tuple(grid.groups[column] for column in columns),
        headings=tuple(grid.headings[column] for column in columns),
        rows=tuple(tuple(row[column] for column in columns) for row in grid.rows),
        texts=texts,
    )


def _width(grid: Grid, columns: Iterable[int]) -> int:
    return 1 + sum(
        BETWEEN + max(map(len, (grid.groups[column], grid.headings[column], *(row[column] for row in grid.rows))))
        for column in columns
    )


WIDEST = 1000
"""Columns of a text that is not folded; a terminal folds to its own width."""

_STYLES = {"better": "green", "worse": "red", "tie": "yellow", "untested": "yellow"}


def render(tables: Sequence[Table]) -> str:
    """Return tables as plain text, every row on one line."""
    console = make_console(plain_width=WIDEST, file=io.StringIO(), coloured=False)
    with console.capture() as capture:
        for table in tables:
            console.print(draw(table, WIDEST))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def draw(table: Table, width: int) -> "Group":
    """Return a table for ``rich.console.Console.print``; on a narrow terminal in parts, with its notes below."""
    from rich.console import Group
    from rich.text import Text

    notes = [Text(note) for note in table.notes]
    if not table.rows:
        return Group(*notes)
    found = narrowed(grid(table), width)
    above = " · ".join(filter(None, (table.layout.title, found.common)))
    parts = [_drawn(part) for part in found.grids]
    return Group(Text(above, "italic"), *parts, *map(Text, found.lines), *([Text("")] if found.lines else []), *notes)


def _drawn(part: Grid) -> "RichTable":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=SIMPLE_HEAD)
    for index, (group, heading) in enumerate(zip(part.groups, part.headings, strict=True)):
        number = index >= part.texts and heading != VERDICT
        drawn.add_column(Text(f"{group}\n{heading}"), justify="right" if number else "left", no_wrap=number)
    for row in part.rows:
        drawn.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    return drawn
