"""Tables in GitHub's Markdown."""

import re
from collections.abc import Iterable, Sequence

from orchestrator.tables.cells import grid
from orchestrator.tables.table import Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


def escape(text: str) -> str:
    """Return a text, on one line already, that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)


def render(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, each with its title and notes."""
    return "\n\n".join(_render(table) for table in tables)


def _render(table: Table) -> str:
    texts = grid(table)
    headings = [f"{group} {heading}".strip() for group, heading in zip(texts.groups, texts.headings, strict=True)]
    metrics = len(table.layout.columns)
    rule = ["---"] * texts.texts + ["---:"] * metrics + ["---"] * (len(headings) - texts.texts - metrics)
    lines = [_line(map(escape, headings)), _line(rule), *(_line(map(escape, row)) for row in texts.rows)]
    return "\n\n".join([f"**{escape(table.layout.title)}**", "\n".join(lines), *map(escape, table.notes)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
