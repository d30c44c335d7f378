"""Answers for programs and spreadsheets, and the table of all forms of output."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from orchestrator.results.answer import Answer, Cell, Quantity, Table, plain
from orchestrator.text.values import guarded, visible
from orchestrator.text.wording import one_line
from orchestrator.views import latex, markdown, terminal
from orchestrator.views.grid import grid
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


STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
section { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8884; }
.number { text-align: right; }
""".strip()


def render_html(answers: Sequence[Answer]) -> str:
    """Return answers as a page of their texts and tables."""
    sections = "\n".join(_section(answer) for answer in answers)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Results</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{sections}\n</body>\n</html>"
    )


def _section(answer: Answer) -> str:
    table = [] if answer.table is None or not answer.table.columns else [_table(answer.table)]
    headline = [_paragraph(answer.headline)] if answer.headline else []
    parts = [f"<h2>{escape(terminal.title_of(answer))}</h2>", *headline, *table, *map(_paragraph, answer.notes)]
    return "\n".join(["<section>", *parts, "</section>"])


def _table(table: Table) -> str:
    texts = grid(table)
    spans = [(group, len(list(cells))) for group, cells in groupby(texts.groups)]
    over = "".join(f'<th scope="colgroup" colspan="{size}">{escape(one_line(group))}</th>' for group, size in spans)
    rows = [
        *([f"<tr>{over}</tr>"] if any(texts.groups) else []),
        _row(texts.headings, texts.numeric, 'th scope="col"'),
        *(_row(row, texts.numeric, "td") for row in texts.rows),
    ]
    caption = f"<caption>{escape(one_line(table.title))}</caption>" if table.title else ""
    return "\n".join([f"<table>{caption}", *rows, "</table>"])


def _row(cells: Sequence[str], numeric: Sequence[bool], tag: str) -> str:
    end = f"</{tag.partition(' ')[0]}>"
    starts = (f'<{tag} class="number">' if number else f"<{tag}>" for number in numeric)
    return f"<tr>{''.join(f'{start}{escape(text)}{end}' for start, text in zip(starts, cells, strict=True))}</tr>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(visible(text))}</p>"


FORMS: Mapping[str, Callable[[Sequence[Answer]], str]] = {
    "table": terminal.render,
    "json": render_json,
    "csv": render_csv,
    "markdown": markdown.render,
    "latex": latex.render,
    "html": render_html,
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
