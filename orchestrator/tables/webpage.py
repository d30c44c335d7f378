"""Tables as one self-contained HTML page."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from orchestrator.tables.cells import Grid, grid
from orchestrator.tables.table import Table

_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
section { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { padding: .25rem .6rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8884; }
.number { text-align: right; }
""".strip()


def render(tables: Sequence[Table]) -> str:
    """Return tables as a page."""
    sections = "\n".join(_section(table) for table in tables)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Results</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{sections}\n</body>\n</html>"
    )


def _section(table: Table) -> str:
    texts = grid(table)
    numbers = range(texts.texts, texts.texts + len(table.layout.columns))
    classes = [' class="number"' if index in numbers else "" for index in range(len(texts.headings))]
    head = [f'<th scope="col"{kind}>{escape(text)}</th>' for kind, text in zip(classes, texts.headings, strict=True)]
    body = [
        "<tr>" + "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in zip(classes, row, strict=True)) + "</tr>"
        for row in texts.rows
    ]
    notes = [f"<p>{escape(note)}</p>" for note in table.notes]
    lines = [
        f"<section>\n<table>\n<caption>{escape(table.layout.title)}</caption>",
        f"<thead>\n<tr>{_groups(texts)}</tr>\n<tr>{''.join(head)}</tr>\n</thead>",
        "<tbody>",
        *body,
        "</tbody>\n</table>",
        *notes,
        "</section>",
    ]
    return "\n".join(lines)


def _groups(texts: Grid) -> str:
    spans = [(group, len(list(cells))) for group, cells in groupby(texts.groups)]
    return "".join(f'<th scope="colgroup" colspan="{size}">{escape(group)}</th>' for group, size in spans)
