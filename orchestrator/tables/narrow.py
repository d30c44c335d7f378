"""A table for a narrow terminal: as many columns as fit, the rest below, and nothing cut off."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.tables.cells import VERDICT, Grid

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
