"""All forms of output of answers; JSON, CSV, GitHub's Markdown and LaTeX are written here.

In LaTeX each table is a float with rules as in [Bleeker2022], and needs the package ``booktabs``.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from orchestrator.results.answer import Answer, Quantity, Table, plain_cell
from orchestrator.text.terminal import say
from orchestrator.text.values import guarded
from orchestrator.text.wording import MISSING, one_line
from orchestrator.views import html, terminal
from orchestrator.views.grid import TextColumn, grid, rows_of
from orchestrator.views.terminal import title_of
from trainables.errors import ConfigError

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "τ": r"$\tau$",
    "·": r"$\cdot$",
    "…": r"\ldots{}",
    "–": r"\textendash{}",
    **{character: f"\\{character}" for character in "{}$&#%_"},
}
"""Brackets and stars are in braces, because a line break before them would take them for its arguments."""

BLOCKS = ("dataset_name", "model_name")
"""Keys of the first columns of the papers' tables, whose values are lines across the table in LaTeX."""


def escape_markdown(text: str) -> str:
    """Return a text, on one line already, that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", text)


def escape_latex(text: str) -> str:
    """Return a text, on one line already, that LaTeX prints as it is."""
    return "".join(_LATEX.get(character, character) for character in text).replace("--", "-{}-")


def render_markdown(answers: Sequence[Answer]) -> str:
    """Return answers as Markdown: question, headline, table and notes of each."""
    return "\n\n".join(part for answer in answers for part in _in_markdown(answer))


def _in_markdown(answer: Answer) -> Iterable[str]:
    yield f"**{escape_markdown(title_of(answer))}**"
    yield from (escape_markdown(one_line(text)) for text in (answer.headline, *answer.taken_back) if text)
    if answer.table is not None and answer.table.columns:
        columns = grid(answer.table)
        headings = (escape_markdown(f"{column.column.group} {column.heading}".strip()) for column in columns)
        rule = ("---:" if column.is_numeric else "---" for column in columns)
        rows = [headings, rule, *(map(escape_markdown, row) for row in rows_of(columns))]
        yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
    yield from (escape_markdown(one_line(note)) for note in answer.notes)


def render_latex(answers: Sequence[Answer]) -> str:
    """Return answers as LaTeX: a table is a ``table`` float, an answer without a table a paragraph."""
    return "\n\n".join(map(_in_latex, answers))


def _in_latex(answer: Answer) -> str:
    title = title_of(answer)
    caption = escape_latex(one_line(" ".join([title if title.endswith("?") else f"{title}.", *answer.sentences])))
    if answer.table is None or not answer.table.columns:
        return rf"\paragraph{{}} {caption}"
    label = re.sub(r"[^a-z0-9]+", "-", f"{answer.dataset} {answer.key}".lower()).strip("-")
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:{label}}}"]
    return "\n".join([*lines, *_tabular(answer.table), r"\end{table}"])


def _tabular(table: Table) -> list[str]:
    """Return the lines of a tabular; the datasets and models of the papers' tables are lines across it."""
    shown = grid(table)
    across = shown[: len(BLOCKS)] if tuple(column.column.key for column in shown[: len(BLOCKS)]) == BLOCKS else []
    columns = shown[len(across) :]
    body: list[str] = [] if across else [r"\midrule"]
    before: tuple[str, ...] = ("",) * len(across)
    blocks = rows_of(across) if across else [()] * len(table.rows)
    for block, row in zip(blocks, rows_of(columns), strict=True):
        for level, (alignment, name) in enumerate(zip("cl", block, strict=False)):
            if block[: level + 1] != before[: level + 1]:
                body += [r"\midrule", _line([_across(len(columns), name, alignment)])]
        before = block
        body.append(_line([_cell(text, column.is_numeric) for text, column in zip(row, columns, strict=True)]))
    alignments = "".join("c" if column.is_numeric else "l" for column in columns)
    begin = rf"\begin{{tabular}}{{{alignments}}}"
    return [begin, r"\toprule", *_head(columns), *body, r"\bottomrule", r"\end{tabular}"]


def _head(columns: Sequence[TextColumn]) -> list[str]:
    """Return the groups above with their rules, where there are groups, and the headings."""
    over, rules, left = [], [], 1
    for group, columns_of in groupby(columns, lambda column: column.column.group):
        size = len(list(columns_of))
        over.append(_across(size, one_line(group), "c"))
        rules += [rf"\cmidrule(lr){{{left}-{left + size - 1}}}"] if group else []
        left += size
    # An interval has the heading of no column.
    named = ((column.column.latex if column.heading == column.column.heading else "", column) for column in columns)
    headings = _line([own or escape_latex(one_line(column.heading)) for own, column in named])
    return [_line(over), " ".join(rules), headings] if rules else [headings]


def _across(size: int, text: str, alignment: str) -> str:
    return rf"\multicolumn{{{size}}}{{{alignment}}}{{{escape_latex(text)}}}"


def _cell(text: str, numeric: bool) -> str:
    """Return a cell; a number is set in mathematics, its deviation in small print."""
    if not numeric or text == MISSING or re.search(r"[^\W\d_]", text):
        return escape_latex(text)
    number = text.replace("−", "-").replace(",", "{,}").replace("{,} ", ", ").replace("%", r"\%")
    number = re.sub(r" ± (\S+)", r" {\\scriptstyle \\pm \1}", number)
    return f"${number.replace('[', '{[}').replace(']', '{]}')}$"


def _line(parts: Sequence[str]) -> str:
    return " & ".join(parts) + r" \\"


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
    rows = [[plain_cell(cell) if isinstance(cell, Quantity) else {"value": cell} for cell in row] for row in table.rows]
    columns = [
        (f"{column.key}{ending}", place, part)
        for place, column in enumerate(table.columns)
        for ending, part in PARTS.items()
        if any(part in row[place] for row in rows)
    ]
    for row in rows:
        yield {name: row[place].get(part) for name, place, part in columns}


FORMS: Mapping[str, Callable[[Sequence[Answer]], str]] = {
    "table": terminal.render_text,
    "json": render_json,
    "csv": render_csv,
    "markdown": render_markdown,
    "latex": render_latex,
    "html": html.render_html,
}
"""Form of output -> function that writes answers in this form."""


def print_answers(answers: Sequence[Answer], form: str) -> None:
    """Print answers in a form; as a table for the width of the terminal, as JSON under the key ``answers``."""
    if form == "table":
        terminal.show(answers)
    elif form == "json":
        print(json.dumps({"answers": [answer.to_dict() for answer in answers]}, indent=2, allow_nan=False))
    else:
        say(render(answers, form).rstrip("\n"))


def render(answers: Sequence[Answer], form: str) -> str:
    """Return answers as one text that ends with a line feed.

    Raises:
        ConfigError: If the form is not one of ``FORMS``.
    """
    if form not in FORMS:
        raise ConfigError(f"format must be one of {', '.join(FORMS)}, got {form!r}")
    return FORMS[form](answers).rstrip("\n") + "\n"
