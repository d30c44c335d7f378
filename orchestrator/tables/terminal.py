"""Tables for a terminal, drawn by rich; no text is read as its markup."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.tables.cells import grid
from orchestrator.tables.table import Table
from orchestrator.text.terminal import make_console

if TYPE_CHECKING:
    from rich.table import Table as RichTable

WIDEST = 1000
"""Columns of a text that nobody folds; a terminal folds to its own width."""

_STYLES = {"better": "green", "worse": "red", "tie": "yellow", "untested": "yellow"}


def render(tables: Sequence[Table]) -> str:
    """Return tables as plain text, every row on one line."""
    console = make_console(plain_width=WIDEST, file=io.StringIO(), coloured=False)
    with console.capture() as capture:
        for table in tables:
            console.print(draw(table))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def draw(table: Table) -> "RichTable":
    """Return a table for ``rich.console.Console.print``."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    texts = grid(table)
    drawn = RichTable(
        title=Text(table.layout.title), caption=Text("\n".join(table.notes)), box=SIMPLE_HEAD, caption_justify="left"
    )
    for index, (group, heading) in enumerate(zip(texts.groups, texts.headings, strict=True)):
        number = texts.texts <= index < texts.texts + len(table.layout.columns)
        drawn.add_column(Text(f"{group}\n{heading}"), justify="right" if number else "left", no_wrap=number)
    for row in texts.rows:
        drawn.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    return drawn
