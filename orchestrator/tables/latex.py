"""Tables in LaTeX: a line for each loss, in blocks of a dataset and a model, as in [Bleeker2022]; needs ``booktabs``.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474
"""

from collections.abc import Sequence
from itertools import groupby

from orchestrator.results.statistics import Measure
from orchestrator.tables import cells
from orchestrator.tables.layouts import Column, Layout
from orchestrator.tables.rows import Row
from orchestrator.tables.table import Table

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
    "–": r"\textendash{}",
    **{character: f"\\{character}" for character in "{}$&#%_"},
}
"""Brackets and stars are in braces, because a line break before them would take them for its arguments."""

_ABOUT = ("Loss", r"\#", "Hyper-parameters")


def escape(text: str) -> str:
    """Return a text, on one line already, that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character) for character in text).replace("--", "-{}-")


def render(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX, each a ``table`` float."""
    return "\n\n".join(_render(table) for table in tables)


def _render(table: Table) -> str:
    verdicts = any(row.verdict for row in table.rows)
    columns = table.layout.columns
    width = len(_ABOUT) + len(columns) + verdicts
    body: list[str] = []
    for dataset, of_dataset in groupby(table.rows, key=cells.dataset):
        body += [r"\midrule", _across(width, "c", dataset)]
        for model, rows in groupby(of_dataset, key=lambda row: row.model):
            body += [r"\midrule", _across(width, "l", cells.printed(model))]
            body += [_row(row, columns, verdicts) for row in rows]
    caption = " ".join([f"{table.layout.title}.", *table.notes])
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{escape(caption)}}}",
            rf"\label{{tab:{table.layout.name.replace('_', '-')}}}",
            rf"\begin{{tabular}}{{lll{'c' * len(columns)}{'l' * verdicts}}}",
            r"\toprule",
            *_head(table.layout, verdicts),
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _head(layout: Layout, verdicts: bool) -> list[str]:
    """Return the directions above, their rules, and the headings."""
    over, rules, left = [""] * len(_ABOUT), [], len(_ABOUT) + 1
    for direction, group in groupby(layout.columns, key=lambda column: column.direction):
        size = len(list(group))
        over.append(rf"\multicolumn{{{size}}}{{c}}{{{direction}}}")
        rules += [rf"\cmidrule(lr){{{left}-{left + size - 1}}}"] if direction else []
        left += size
    names = [*_ABOUT, *(column.latex for column in layout.columns)]
    return [_line([*over, *[""] * verdicts]), " ".join(rules), _line([*names, *["Verdict"] * verdicts])]


def _row(row: Row, columns: Sequence[Column], verdicts: bool) -> str:
    about = [cells.loss(row), cells.one_line(row.number), cells.parameters(row)]
    numbers = [_number(row.measures.get(column.metric), column.decimals) for column in columns]
    verdict = [escape(cells.one_line(row.verdict))] * verdicts
    return _line([*map(escape, about), *numbers, *verdict])


def _number(measure: Measure | None, decimals: int) -> str:
    """Return the mean with its deviation in small print."""
    if measure is None:
        return escape(cells.MISSING)
    deviation = cells.spread(measure, decimals)
    small = rf" {{\scriptstyle \pm {deviation}}}" if deviation else ""
    return f"${cells.number(measure.mean, decimals)}{small}$"


def _across(width: int, alignment: str, text: str) -> str:
    return _line([rf"\multicolumn{{{width}}}{{{alignment}}}{{{escape(text)}}}"])


def _line(parts: Sequence[str]) -> str:
    return " & ".join(parts) + r" \\"
