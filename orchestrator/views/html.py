"""Answers as an HTML page: one file with its style and scripts, and a policy that forbids any request.

The Content-Security-Policy of a page allows the page's own scripts alone, each by its hash [CSP3]. Text that is wrongly
inserted into a page as markup can then neither run as a script nor load a file. A column of a table on a page is texts,
or intervals on an axis whose range its ticks state.

References:
    [CSP3] Content Security Policy Level 3, section 8.4, https://www.w3.org/TR/CSP3/#match-element-to-source-list
"""

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table
from orchestrator.text.values import visible
from orchestrator.text.wording import number_text, printed, value_in_unit
from orchestrator.views.grid import grid
from orchestrator.views.terminal import SETTINGS, short_setting
from trainables.files import write_whole

Fact = tuple[str, str, str]
"""Name of a number, the number as text, and an explanation, which may be empty."""

Section = tuple[str, str, str, Sequence[Answer]]
"""A part of a page of answers: heading, address to which it leads, a line of text, answers; texts may be empty."""

TICKS = 4
"""Approximate number of ticks of an axis."""

BRIEF = 16
"""Most characters of the texts of a column that is as narrow as its texts."""

LONGEST = 60
"""Most characters of a setting that is shown whole."""

MARGIN = 6.0
"""Percent of an axis on either side of the intervals."""

Mark = tuple[float, float, float]
"""Left end and width of an interval, and the place of its value, in percent of the axis."""


@dataclass(frozen=True)
class Axis:
    """Intervals on one axis.

    Attributes:
        ticks: Place in percent, and the value there as text.
        marks: A mark for each row; ``None`` in a row without a value.
    """

    ticks: Sequence[tuple[float, str]]
    marks: Sequence[Mark | None]


@dataclass(frozen=True)
class PageColumn:
    """A column of a table on a page.

    Attributes:
        group: Heading above the headings of several columns; may be empty.
        kind: ``text``, ``text brief``, ``number``, ``verdict`` or ``axis``.
        texts: A text for each row.
        brief: A short text for each row, which a reader opens; empty where the texts are shown whole.
        axis: The intervals of a column of kind ``axis``; ``None`` for others.
    """

    heading: str
    group: str
    kind: str
    texts: Sequence[str] = ()
    brief: Sequence[str] = ()
    axis: Axis | None = None


def page_columns(table: Table) -> list[PageColumn]:
    """Return the columns of a table that people see; intervals with a column of their own are also drawn."""
    shown, columns = grid(table), []
    for place, found in enumerate(shown):
        column = found.column
        brief = " brief" if all(len(text) <= BRIEF for text in found.texts) else ""
        kind = "verdict" if column.key.endswith("verdict") else "number" if found.is_numeric else f"text{brief}"
        brief_texts = [_brief(text) for text in found.texts] if column.key in SETTINGS else ()
        columns.append(PageColumn(found.heading, column.group, kind, found.texts, brief_texts))
        is_last = all(later.column is not column for later in shown[place + 1 :])
        if column.shows == "apart" and is_last:
            cells = [row[table.columns.index(column)] for row in table.rows]
            if axis := _axis(cells, column):
                columns.append(PageColumn("", column.group, "axis", axis=axis))
    return columns


def _brief(setting: str) -> str:
    return setting if len(setting) <= LONGEST else short_setting(setting, LONGEST)


def _axis(cells: Sequence[Cell], column: Column) -> Axis | None:
    """Return the intervals of a column on an axis; ``None`` where all values are equal."""
    intervals = [_interval(cell) for cell in cells]
    ends = [end for interval in intervals if interval is not None for end in interval]
    if not ends or max(ends) <= min(ends):
        return None
    low, per_unit = min(ends), (100 - 2 * MARGIN) / (max(ends) - min(ends))

    def place(value: float) -> float:
        return round(MARGIN + (value - low) * per_unit, 2)

    def mark(left: float, value: float, right: float) -> Mark:
        return place(left), round((right - left) * per_unit, 2), place(value)

    marks = [None if interval is None else mark(*interval) for interval in intervals]
    ticks = [(place(value), text) for value, text in _ticks(low, max(ends), column)]
    return Axis(ticks, marks)


def _interval(cell: Cell) -> tuple[float, float, float] | None:
    """Return low, value and high of a cell; without an interval all three are the value."""
    if isinstance(cell, Quantity):
        known = cell.low is not None and cell.high is not None
        return (cell.low, cell.value, cell.high) if known else (cell.value,) * 3  # type: ignore[return-value]
    return (float(cell),) * 3 if isinstance(cell, int | float) else None


def _ticks(low: float, high: float, column: Column) -> list[tuple[float, str]]:
    """Return round values between two ends, with the digits in which they differ."""
    rough = (high - low) / TICKS
    power = math.floor(math.log10(rough))
    factor = next(factor for factor in (1, 2, 2.5, 5, 10) if 10.0**power * factor >= rough)
    step, decimals = 10.0**power * factor, max(0, (factor == 2.5) - power)
    values = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(value, number_text(value, column.unit, signed=column.signed, decimals=decimals)) for value in values]


def named_number(name: str, value: float) -> str:
    """Return a number of an answer by the unit that its name says.

    Example:
        >>> named_number("p_unadjusted", 0.00001), named_number("difference", 4.8761)
        ('< 0.001', '4.876')
    """
    unit = name.partition("_")[0]
    return value_in_unit(value, unit if unit in ("p", "probability", "share") else "number")


def render(answers: Sequence[Answer]) -> str:
    """Return answers as a page, those of a dataset under its name; every string is escaped."""
    groups = [(dataset, list(group)) for dataset, group in groupby(answers, lambda answer: answer.dataset)]
    sections = [(dataset and printed(dataset), "", "", group) for dataset, group in groups]
    return _page("Results", "Answers", sections, (), ())


def write_sections(
    title: str,
    eyebrow: str,
    sections: Sequence[Section],
    path: Path,
    *,
    facts: Sequence[Fact] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write answers under several headings as one HTML file, whole, or not at all; every string is escaped.

    Args:
        title: Title of the page.
        eyebrow: What the page is, in a few words above the title.
        sections: The answers, in the order of the page.
        path: The file.
        facts: Numbers that are shown below the title.
        notes: Sentences that are shown below the title.
    """
    write_whole(path, _page(title, eyebrow, sections, facts, notes))


def _page(title: str, eyebrow: str, sections: Sequence[Section], facts: Sequence[Fact], notes: Sequence[str]) -> str:
    scripts, template = [theme()], templates().get_template("answers.html.j2")
    values = {"title": title, "eyebrow": eyebrow, "sections": sections, "facts": facts, "notes": notes}
    return template.render(policy=policy(scripts), style=stylesheet(), scripts=scripts, **values)


def policy(scripts: Iterable[str], served: bool = False) -> Markup:
    """Return the policy of a page: for the ``<meta>`` element of a file, or for the HTTP header of a served page.

    Args:
        scripts: Scripts of the page. Styles may be inline: they run nothing, and load nothing.
        served: Whether the page may send requests to its own server, and load scripts from there.
    """
    allowed = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts]
    own = " 'self'" if served else ""
    rules = f"default-src 'none'; script-src{own} {' '.join(allowed)}; style-src 'unsafe-inline'; img-src data: blob:"
    framed = "; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" if served else ""
    return Markup(rules + framed)


@cache
def templates(*folders: str) -> Environment:
    """Return the templates of this folder and of others of ``orchestrator``; values are escaped and made visible."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("orchestrator", folder) for folder in (*folders, "views")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.filters |= {"page_columns": page_columns, "printed": printed, "coded": _coded}
    environment.globals["named_number"] = named_number
    return environment


def _coded(text: str) -> Markup:
    """Return a sentence with what is in back quotes as code."""
    # A plain string: parts of ``Markup`` would be escaped again when they are joined.
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(visible(text)))))


def stylesheet(*rooms: str) -> Markup:
    """Return the style that all pages share, and behind it the styles of other folders of ``orchestrator``."""
    views = Path(__file__).parent
    files = [views / "page.css", *(views.parent / room / f"{room}.css" for room in rooms)]
    return Markup("".join(file.read_text(encoding="utf-8") for file in files))


def theme() -> Markup:
    """Return the script for the head of every page, which chooses light or dark."""
    return Markup((Path(__file__).parent / "theme.js").read_text(encoding="utf-8"))
