"""Answers in LaTeX: each table a float with rules as in [Bleeker2022]; needs the package ``booktabs``.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from orchestrator.results.answer import Answer, Table
from orchestrator.text.wording import MISSING, one_line
from orchestrator.views.grid import Grid, grid
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
    shown = [column.key for column in table.columns if not column.hidden]
    has_blocks = tuple(shown[: len(BLOCKS)]) == BLOCKS
    across = BLOCKS if has_blocks else ()
    blocks = [[str(row[_place(table, key)]) for key in across] for row in table.rows]
    columns = (replace(column, hidden=column.hidden or column.key in across) for column in table.columns)
    texts = grid(replace(table, columns=tuple(columns)))
    width = len(texts.headings)
    body: list[str] = [] if has_blocks else [r"\midrule"]
    before: list[str] = [""] * len(BLOCKS)
    for block, row in zip(blocks, texts.rows, strict=True):
        for level, (alignment, name) in enumerate(zip("cl", block, strict=False)):
            if block[: level + 1] != before[: level + 1]:
                body += [r"\midrule", _line([rf"\multicolumn{{{width}}}{{{alignment}}}{{{escape(one_line(name))}}}"])]
        before = block
        body.append(_line([_cell(text, numeric) for text, numeric in zip(row, texts.numeric, strict=True)]))
    alignments = "".join("c" if numeric else "l" for numeric in texts.numeric)
    return [
        rf"\begin{{tabular}}{{{alignments}}}",
        r"\toprule",
        *_head(texts),
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _place(table: Table, key: str) -> int:
    return next(place for place, column in enumerate(table.columns) if column.key == key)


def _head(texts: Grid) -> list[str]:
    """Return the groups above with their rules, where there are groups, and the headings."""
    pairs = zip(texts.headings, texts.latex, strict=True)
    headings = _line([latex or escape(one_line(heading)) for heading, latex in pairs])
    if not any(texts.groups):
        return [headings]
    over, rules, left = [], [], 1
    for group, columns in groupby(texts.groups):
        size = len(list(columns))
        over.append(rf"\multicolumn{{{size}}}{{c}}{{{escape(one_line(group))}}}")
        rules += [rf"\cmidrule(lr){{{left}-{left + size - 1}}}"] if group else []
        left += size
    return [_line(over), " ".join(rules), headings]


def _cell(text: str, numeric: bool) -> str:
    """Return a cell; a number is set in mathematics, its deviation in small print."""
    if not numeric or text == MISSING or re.search(r"[^\W\d_]", text):
        return escape(text)
    number = text.replace("−", "-").replace(",", "{,}").replace("{,} ", ", ").replace("%", r"\%")
    number = re.sub(r" ± (\S+)", r" {\\scriptstyle \\pm \1}", number)
    return f"${number.replace('[', '{[}').replace(']', '{]}')}$"


def _line(parts: Sequence[str]) -> str:
    return " & ".join(parts) + r" \\"
