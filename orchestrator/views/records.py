"""Answers for programs and spreadsheets, and the table of all forms of output."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.results.answer import Answer, Cell, Quantity, Table, plain
from orchestrator.text.values import guarded
from orchestrator.views import html, latex, markdown, terminal
from trainables.errors import ConfigError

PARTS = {"_sd": "deviation", "_low": "low", "_high": "high"}
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
        for record in _records(answer.table)
    ]
    names = list(dict.fromkeys(["answer", "of", *(name for record in records for name in record)]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(guarded, names))
    writer.writerows([_guarded(record.get(name)) for name in names] for record in records)
    return text.getvalue()


def _records(table: Table | None) -> Iterator[dict[str, Any]]:
    if table is None:
        return
    columns = range(len(table.columns))
    names = {place: [ending for ending, part in PARTS.items() if _has(table.rows, place, part)] for place in columns}
    for row in table.rows:
        record: dict[str, Any] = {}
        for place, cell in enumerate(row):
            key = table.columns[place].key
            record[key] = cell.value if isinstance(cell, Quantity) else cell
            parts = plain(cell) if isinstance(cell, Quantity) else {}
            record |= {f"{key}{ending}": parts.get(PARTS[ending]) for ending in names[place]}
        yield record


def _has(rows: Sequence[Sequence[Cell]], place: int, part: str) -> bool:
    return any(isinstance(row[place], Quantity) and getattr(row[place], part) is not None for row in rows)


def _guarded(value: Any) -> Any:
    return guarded(value) if isinstance(value, str) else value


FORMS: Mapping[str, Callable[[Sequence[Answer]], str]] = {
    "table": terminal.render,
    "json": render_json,
    "csv": render_csv,
    "markdown": markdown.render,
    "latex": latex.render,
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
