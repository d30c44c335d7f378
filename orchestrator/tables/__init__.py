"""Result tables for people, papers and programs, in the layout of the published tables.

``rows.py`` says what a row is, ``layouts.py`` which columns there are, ``cells.py`` how a number looks, and a module
for each kind of reader writes it out, escaped for what it writes.
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
"""Format -> what writes tables in it."""


def render(tables: Sequence[Table], form: str) -> str:
    """Return tables as one text that ends with a line feed.

    Raises:
        ConfigError: If the format is not one of ``FORMATS``.
    """
    if form not in FORMATS:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
    return FORMATS[form](tables).rstrip("\n") + "\n"
