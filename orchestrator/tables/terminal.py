"""Tables for a terminal, drawn by rich; no text is read as rich's markup."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.tables.cells import VERDICT, Grid, grid
from orchestrator.tables.narrow import narrowed
from orchestrator.tables.table import Table
from orchestrator.text.terminal import make_console

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as RichTable

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
