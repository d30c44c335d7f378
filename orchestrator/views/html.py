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
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from orchestrator.results.answer import Answer, Cell, Quantity, Table
from orchestrator.text.values import value_text, visible
from orchestrator.text.wording import MISSING, number_text, printed, value_in_unit
from orchestrator.views.grid import TextColumn, grid
from orchestrator.views.terminal import SETTINGS, short_setting

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

NO_BREAK = "\u00a0"
"""A space at which no line ends."""

MARGIN = 6.0
"""Percent of an axis on either side of the intervals."""


@dataclass(frozen=True)
class PageColumn(TextColumn):
    """A column of a table on a page.

    Attributes:
        kind: ``text``, ``text brief``, ``number``, ``verdict`` or ``axis``.
        ticks: Of an axis, places in percent, and the values there as texts.
        marks: Of an axis, left end, width and place of the value of each row's interval, in percent; ``None`` in a row
            without a value.
    """

    kind: str
    ticks: Sequence[tuple[float, str]] = ()
    marks: Sequence[tuple[float, float, float] | None] = ()

    def brief(self, text: str) -> str:
        """Return a text of the column as a reader sees it at first: a long setting is short."""
        is_long = self.column.key in SETTINGS and len(text) > LONGEST
        return short_setting(text, LONGEST) if is_long else text


def page_columns(table: Table) -> list[PageColumn]:
    """Return the columns of a table that people see; intervals with a column of their own are also drawn."""
    shown, columns = grid(table), []
    for place, text_column in enumerate(shown):
        is_brief = all(len(text) <= BRIEF for text in text_column.texts)
        kind = "number" if text_column.is_numeric else "text brief" if is_brief else "text"
        kind = "verdict" if text_column.column.key.endswith("verdict") else kind
        columns.append(PageColumn(**vars(text_column), kind=kind))
        is_last = all(later.column is not text_column.column for later in shown[place + 1 :])
        if text_column.column.shows == "apart" and is_last:
            columns += _axis(text_column)
    return columns


def _axis(shown: TextColumn) -> list[PageColumn]:
    """Return the drawing of a column; none where all its values are equal."""
    column, intervals = shown.column, [_interval(cell) for cell in shown.cells]
    ends = [end for interval in intervals for end in interval]
    if not ends or max(ends) <= min(ends):
        return []
    low, high = min(ends), max(ends)
    per_unit = (100 - 2 * MARGIN) / (high - low)

    def place(value: float) -> float:
        return round(MARGIN + (value - low) * per_unit, 2)

    marks = [
        (place(interval[0]), round((interval[2] - interval[0]) * per_unit, 2), place(interval[1])) if interval else None
        for interval in intervals
    ]
    # Ticks are round values, with the digits in which they differ.
    rough = (high - low) / TICKS
    power = math.floor(math.log10(rough))
    factor = next(factor for factor in (1, 2, 2.5, 5, 10) if 10.0**power * factor >= rough)
    step, decimals = 10.0**power * factor, max(0, (factor == 2.5) - power)
    values = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    texts = [number_text(value, column.unit, signed=column.signed, decimals=decimals) for value in values]
    ticks = list(zip(map(place, values), texts, strict=True))
    return [PageColumn(column, "", shown.cells, [""] * len(marks), "axis", ticks, marks)]


def _interval(cell: Cell) -> tuple[float, ...]:
    """Return low, value and high of a cell, all three the value without an interval; nothing without a value."""
    if isinstance(cell, Quantity):
        return (cell.value,) * 3 if cell.low is None or cell.high is None else (cell.low, cell.value, cell.high)
    return (float(cell),) * 3 if isinstance(cell, int | float) else ()


def named_number(name: str, value: float) -> str:
    """Return a number of an answer by the unit that its name says.

    Example:
        >>> named_number("p_unadjusted", 0.00001), named_number("difference", 4.8761)
        ('< 0.001', '4.876')
    """
    unit = name.partition("_")[0]
    return value_in_unit(value, unit if unit in ("p", "probability", "share") else "number")


def render_html(answers: Sequence[Answer]) -> str:
    """Return answers as a page, those of a dataset under its name; every string is escaped."""
    groups = [(dataset, list(group)) for dataset, group in groupby(answers, lambda answer: answer.dataset)]
    return sections_page(
        "Results", "Answers", [(dataset and printed(dataset), "", "", group) for dataset, group in groups]
    )


def sections_page(
    title: str, eyebrow: str, sections: Sequence[Section], *, facts: Sequence[Fact] = (), notes: Sequence[str] = ()
) -> str:
    """Return answers under several headings as a page; every string is escaped.

    ``eyebrow`` is what the page is, in a few words above the title; ``facts`` and sentences (``notes``) are below it.
    """
    values = {"title": title, "eyebrow": eyebrow, "sections": sections, "facts": facts, "notes": notes}
    return filled("answers.html.j2", [theme()], **values)


def filled(template: str, scripts: Sequence[Markup], *rooms: str, **values: Any) -> str:
    """Return a page with its style, its scripts, whose first is ``theme``, and the policy for them.

    ``rooms`` are folders of ``orchestrator`` with further templates and styles.
    """
    shown = {"policy": policy(scripts), "style": stylesheet(*rooms), "scripts": scripts, **values}
    return templates(*rooms).get_template(template).render(**shown)


def policy(scripts: Iterable[str], served: bool = False) -> Markup:
    """Return the policy of a page: for the ``<meta>`` element of a file, or for the HTTP header of a served page.

    Styles may be inline: they run nothing, and load nothing. A served page may send requests to its own server, and
    load scripts from there.
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
    environment.filters |= {"number_text": number_text, "value_text": value_text}
    environment.globals |= {"named_number": named_number, "MISSING": MISSING}
    return environment


def _coded(text: str) -> Markup:
    """Return a sentence with what is in back quotes as code; no line ends between a p and its value."""
    whole = re.sub(r"\bp ([=<]) ", f"p{NO_BREAK}\\1{NO_BREAK}", visible(text))
    # A plain string: parts of ``Markup`` would be escaped again when they are joined.
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(whole))))


def stylesheet(*rooms: str) -> Markup:
    """Return the style that all pages share, and behind it the styles of other folders of ``orchestrator``."""
    return Markup("".join([asset("views/page.css"), *(asset(f"{room}/{room}.css") for room in rooms)]))


def theme() -> Markup:
    """Return the script for the head of every page, which chooses light or dark."""
    return asset("views/theme.js")


@cache
def asset(path: str) -> Markup:
    """Return a style or a script of a folder of ``orchestrator``, such as ``views/theme.js``."""
    return Markup((Path(__file__).parents[1] / path).read_text(encoding="utf-8"))
