"""Answers for programs and spreadsheets, and the table of all forms of output."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.results.answer import Answer, Quantity, Table, plain
from orchestrator.text.values import guarded
from orchestrator.views import documents, html, terminal
from trainables.errors import ConfigError

PARTS = {"": "value", "_sd": "deviation", "_low": "low", "_high": "high"}
"""Ending of a column of the CSV -> part of a quantity."""


def render_json(answers: Sequence[Answer]) -> str:
    """Return a list with an object for each answer, see ``Answer.to_dict``."""
    return json.dumps([answer.to_dict() for answer in answers], indent=2, allow_nan=False)


def render_csv(answers: Sequence[Answer]) -> str:
    """Return one CSV of the rows of all tables, hidden columns included.

    The first columns are ``answer``, its key, and ``of``, its dataset. A column with quantities is followed by
    ``KEY_sd``, ``KEY_low`` and ``KEY_high`` where a row has such a number. No cell is a formula to a spreadsheet.
    """
    records = [
        {"answer": answer.key, "of": answer.dataset, **record}
        for answer in answers
        if answer.table is not None
        for record in _records(answer.table)
    ]
    names = list(dict.fromkeys(["answer", "of", *(name for record in records for name in record)]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(guarded, names))
    for record in records:
        values = map(record.get, names)
        writer.writerow([guarded(value) if isinstance(value, str) else value for value in values])
    return text.getvalue()


def _records(table: Table) -> Iterator[dict[str, Any]]:
    rows = [[plain(cell) if isinstance(cell, Quantity) else {"value": cell} for cell in row] for row in table.rows]
    columns = [
        (f"{column.key}{ending}", place, part)
        for place, column in enumerate(table.columns)
        for ending, part in PARTS.items()
        if any(part in row[place] for row in rows)
    ]
    for row in rows:
        yield {name: row[place].get(part) for name, place, part in columns}


FORMS: Mapping[str, Callable[[Sequence[Answer]], str]] = {
    "table": terminal.render,
    "json": render_json,
    "csv": render_csv,
    "markdown": documents.render_markdown,
    "latex": documents.render_latex,
    "html": html.render,
}
"""Form of output -> function that writes answers in this form."""


def render(answers: Sequence[Answer], form: str) -> str:
    """Return answers as one text that ends with a line feed.

    Raises:
        ConfigError: If the form is not one of ``FORMS``.
    """
    if form not in FORMS:
        raise ConfigError(f"format must be one of {', '.join(FORMS)}, got {form!r}")
    return FORMS[form](answers).rstrip("\n") + "\n"
