"""Answers in GitHub's Markdown."""

import re
from collections.abc import Iterable, Sequence

from orchestrator.results.answer import Answer, Table
from orchestrator.text.values import visible
from orchestrator.views.grid import grid, rows_of
from orchestrator.views.terminal import title_of

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


def escape(text: str) -> str:
    """Return a text, on one line already, that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", text)


def render(answers: Sequence[Answer]) -> str:
    """Return answers as Markdown: question, headline, table and notes of each."""
    return "\n\n".join(_render(answer) for answer in answers)


def _render(answer: Answer) -> str:
    table = [] if answer.table is None or not answer.table.columns else [_table(answer.table)]
    headline = [_paragraph(answer.headline)] if answer.headline else []
    return "\n\n".join([f"**{escape(title_of(answer))}**", *headline, *table, *map(_paragraph, answer.notes)])


def _table(table: Table) -> str:
    columns = grid(table)
    headings = [f"{column.column.group} {column.heading}".strip() for column in columns]
    rule = ["---:" if column.is_numeric else "---" for column in columns]
    rows = (_line(map(escape, row)) for row in rows_of(columns))
    return "\n".join([_line(map(escape, headings)), _line(rule), *rows])


def _paragraph(text: str) -> str:
    return escape(" ".join(visible(text).split()))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
