"""Answers in LaTeX: each table a float with rules as in [Bleeker2022]; needs the package ``booktabs``.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
"""

import re
from collections.abc import Sequence
from itertools import groupby

from orchestrator.results.answer import Answer, Table
from orchestrator.text.wording import MISSING, one_line
from orchestrator.views.grid import TextColumn, grid, rows_of
from orchestrator.views.terminal import title_of

_SPECIAL = {
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
"""Keys of the first columns of the papers' tables, whose values are lines across the table."""


def escape(text: str) -> str:
    """Return a text, on one line already, that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character) for character in text).replace("--", "-{}-")


def render(answers: Sequence[Answer]) -> str:
    """Return answers as LaTeX: a table is a ``table`` float, an answer without a table a paragraph."""
    return "\n\n".join(_render(answer) for answer in answers)


def _render(answer: Answer) -> str:
    title = title_of(answer)
    caption = escape(one_line(" ".join([title if title.endswith("?") else f"{title}.", *answer.sentences])))
    if answer.table is None or not answer.table.columns:
        return rf"\paragraph{{}} {caption}"
    label = re.sub(r"[^a-z0-9]+", "-", f"{answer.dataset} {answer.key}".lower()).strip("-")
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{label}}}",
            *_tabular(answer.table),
            r"\end{table}",
        ]
    )


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
                body += [r"\midrule", _line([rf"\multicolumn{{{len(columns)}}}{{{alignment}}}{{{escape(name)}}}"])]
        before = block
        body.append(_line([_cell(text, column.is_numeric) for text, column in zip(row, columns, strict=True)]))
    alignments = "".join("c" if column.is_numeric else "l" for column in columns)
    return [
        rf"\begin{{tabular}}{{{alignments}}}",
        r"\toprule",
        *_head(columns),
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _head(columns: Sequence[TextColumn]) -> list[str]:
    """Return the groups above with their rules, where there are groups, and the headings."""
    headings = _line([_heading(column) for column in columns])
    groups = [column.column.group for column in columns]
    if not any(groups):
        return [headings]
    over, rules, left = [], [], 1
    for group, columns_of in groupby(groups):
        size = len(list(columns_of))
        over.append(rf"\multicolumn{{{size}}}{{c}}{{{escape(one_line(group))}}}")
        rules += [rf"\cmidrule(lr){{{left}-{left + size - 1}}}"] if group else []
        left += size
    return [_line(over), " ".join(rules), headings]


def _heading(column: TextColumn) -> str:
    own = column.column.latex if column.heading == column.column.heading else ""
    return own or escape(one_line(column.heading))


def _cell(text: str, numeric: bool) -> str:
    """Return a cell; a number is set in mathematics, its deviation in small print."""
    if not numeric or text == MISSING or re.search(r"[^\W\d_]", text):
        return escape(text)
    number = text.replace("−", "-").replace(",", "{,}").replace("{,} ", ", ").replace("%", r"\%")
    number = re.sub(r" ± (\S+)", r" {\\scriptstyle \\pm \1}", number)
    return f"${number.replace('[', '{[}').replace(']', '{]}')}$"


def _line(parts: Sequence[str]) -> str:
    return " & ".join(parts) + r" \\"
