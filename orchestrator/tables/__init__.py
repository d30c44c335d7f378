"""Result tables for people, papers and programs, in the layout of the published tables.

``rows.py`` makes rows, ``layouts.py`` has the columns, ``cells.py`` formats numbers and names, and a module for each
format writes the table, with its escapes.
"""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.tables import latex, markdown, records, terminal, webpage
from orchestrator.tables.rows import Row, rows_of
from orchestrator.tables.table import Table, cocos_tables, retrieval_table
from trainables.errors import ConfigError

__all__ = ["FORMATS", "Row", "Table", "cocos_tables", "render", "retrieval_table", "rows_of"]

FORMATS: Mapping[str, Callable[[Sequence[Table]], str]] = {
    "table": terminal.render,
    "json": records.render_json,
    "csv": records.render_csv,
    "markdown": markdown.render,
    "latex": latex.render,
    "html": webpage.render,
}
"""Format -> function that writes tables in the format."""


def render(tables: Sequence[Table], form: str) -> str:
    """Return tables as one text that ends with a line feed.

    Raises:
        ConfigError: If the format is not one of ``FORMATS``.
    """
    if form not in FORMATS:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
    return FORMATS[form](tables).rstrip("\n") + "\n"
