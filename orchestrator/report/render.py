"""Pages as HTML: one file each with styles, scripts and Plotly, and a policy that forbids any request.

The Content-Security-Policy of a page allows the page's own scripts and styles alone, each with its hash. Text that is
wrongly inserted into a page as markup can then neither run as a script nor load a file. In the data of a page, which
``data.js`` restores, a repeated list is written once, and digits that no screen shows are dropped.

References:
    [CSP3] Content Security Policy Level 3, section 8.4, https://www.w3.org/TR/CSP3/#match-element-to-source-list
"""

import ast
import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from orchestrator.report.cost import Fact
from orchestrator.report.figures import Figure
from orchestrator.report.leaderboard import Column, Row
from orchestrator.report.page import Page
from orchestrator.results.answer import Answer
from orchestrator.text.values import visible, visible_values
from orchestrator.text.wording import printed
from orchestrator.views.html import named_number, page_columns
from trainables.files import write_whole

FEWEST = 8
"""Least number of items of a list that is written once."""

DIGITS = 6
"""Significant digits of a coordinate; the error is below a pixel on the widest screen."""

PLACE = "$list"
"""Key of the object that replaces a list, with the list's number."""


def packed(data: Any) -> dict[str, Any]:
    """Return plain values, in which each repeated long list is written once.

    Returns:
        ``lists``, the lists; and ``data``, in which ``{"$list": N}`` replaces the Nth list.
    """
    times = Counter(_long_lists(data))
    places: dict[str, int] = {}
    lists: list[Any] = []

    def pack(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: pack(inner) for name, inner in value.items()}
        if not isinstance(value, list | tuple):
            return value
        text = _text(value)
        if text is None or times[text] == 1:
            return [pack(item) for item in value]
        if text not in places:
            places[text] = len(lists)
            lists.append(value)
        return {PLACE: places[text]}

    return {"data": pack(data), "lists": lists}


def rounded(value: Any) -> Any:
    """Return plain values of a chart with as many digits as a screen shows."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def _long_lists(value: Any) -> Iterator[str]:
    """Yield the text of each list that could be written once."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _long_lists(inner)
    elif isinstance(value, list | tuple):
        text = _text(value)
        if text is not None:
            yield text
        else:
            for inner in value:
                yield from _long_lists(inner)


def _text(value: list[Any] | tuple[Any, ...]) -> str | None:
    """Return the JSON text of a list; ``None`` for a short list, and for a list that holds lists or objects."""
    if len(value) < FEWEST or any(isinstance(item, dict | list | tuple) for item in value):
        return None
    return json.dumps(value)


EMPTY_STYLE = ""
"""Content of Plotly's style element when the browser checks the element; Plotly adds the rules later."""

BOLD = "font-weight:bold"
"""Style attribute with which Plotly writes ``<b>``, as the name in a text under the pointer has it."""

_MADE_STYLE = re.compile(r"createElement\(\"style\"\);\w+\.id=\"\w+\",\w+\.textContent=('(?:[^'\\\\]|\\\\.)*')")
"""Matches the code with which Plotly inserts the stylesheet of its maps into a page, even without a map."""

_ATTRIBUTE = re.compile(r'\sstyle="([^"]*)"')


def digest(content: str) -> str:
    """Return the source expression that allows an inline script or style with this content [CSP3]."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def made_styles(script: str) -> list[str]:
    """Return the contents of the style elements and style attributes that a script of plotly makes."""
    # Plotly's minified JavaScript strings are also valid Python strings.
    return [EMPTY_STYLE, BOLD, *(str(ast.literal_eval(text)) for text in _MADE_STYLE.findall(script))]


def style_sources(html: str, styles: Iterable[str]) -> str:
    """Return the part of a policy about styles: style elements and style attributes of a page.

    Args:
        html: The page without its scripts; its style attributes are sizes and positions that the template writes.
        styles: Contents of the page's style elements, including style elements that the page's scripts make.
    """
    hashes = dict.fromkeys(map(digest, (*styles, *_ATTRIBUTE.findall(html))))
    return " ".join(["'unsafe-hashes'", *hashes])


def set_aside_styles(html: str) -> str:
    """Return a part of a page with its style attributes as data, which a script of the page then applies.

    The policy of an open page only allows the style attributes of the page that was sent, but scripts may set styles.
    """
    return _ATTRIBUTE.sub(r' data-style="\1"', html)


def file_policy(html: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a page that is one file, for its ``<meta>`` element."""
    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; "
        f"style-src {style_sources(html, styles)}; img-src data: blob:"
    )


def served_policy(html: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a served page, for an HTTP header: the page may send requests to its own server only."""
    return (
        f"default-src 'none'; script-src 'self' {' '.join(map(digest, scripts))}; "
        f"style-src {style_sources(html, styles)}; img-src data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


SCRIPTS = ("theme.js", "data.js", "leaderboard.js", "charts.js")
"""Scripts of a page: the first is in the page's head, the next two come before Plotly, the last after Plotly."""
ROWS_SHOWN = 20
"""Number of leaderboard rows in the HTML itself, which the page shows before, and without, its script."""

_POLICY = "policy-of-the-page"
"""Placeholder of the policy until the page is rendered."""


CHARTS = (
    ("search", "Search", ("front", "trials", "curves", "budget", "incumbents", "race", "early")),
    ("space", "Coefficients", ("parallel", "effects", "slices", "contours")),
    ("losses", "Losses", ("weights", "learned", "cocos")),
    ("cost", "Cost", ("spent",)),
)
"""Sections of the page with charts: anchor, heading, keys of the figures; a section without a figure is left out."""

KEYS = frozenset(key for _, _, keys in CHARTS for key in keys)

Section = tuple[str, str, str, Sequence[Answer]]
"""A part of a page of answers: heading, address to which it leads, a line of text, answers; texts may be empty."""


def write_report(page: Page, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, render(page))


def render(page: Page) -> str:
    """Return the page as HTML; every string of the page is escaped."""
    options = {key: plain_options(figure) for key, figure in page.figures.items() if figure.options}
    figures = {key: {"options": values} for key, values in options.items()}
    rows = {"rows": plain_rows(page.columns, page.rows), "rowsShown": ROWS_SHOWN, "runs": plain_runs(page)}
    data = embedded({"figures": figures, **rows})
    return _file("report.html.j2", scripts(), plotly_source(), data=data, **report_values(page))


def report_values(page: Page, live: Any = None) -> dict[str, Any]:
    """Return the values of ``report.html.j2`` that the page determines.

    Args:
        page: The page.
        live: State of the experiment now, on a live page, where each figure is drawn later.
    """
    drawable = KEYS if live else {key for key, figure in page.figures.items() if figure.options}
    return {"page": page, "live": live, "drawable": drawable, "charts_of_page": CHARTS, "rows_shown": ROWS_SHOWN}


def write_answers_page(
    title: str,
    eyebrow: str,
    answers: Sequence[Answer],
    path: Path,
    *,
    facts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write answers as one HTML file, whole, or not at all; every string is escaped.

    Args:
        title: Title of the page.
        eyebrow: What the page is, in a few words above the title.
        answers: The answers, in the order of the page.
        path: The file.
        facts: Names and numbers that are shown below the title.
        notes: Sentences that are shown below the title.
    """
    shown = [(name, value, "") for name, value in facts]
    write_sections(title, eyebrow, [("", "", "", answers)], path, facts=shown, notes=notes)


def write_sections(
    title: str,
    eyebrow: str,
    sections: Sequence[Section],
    path: Path,
    *,
    facts: Sequence[Fact] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write answers under several headings as one HTML file, see ``write_answers_page``."""
    values = {"title": title, "eyebrow": eyebrow, "sections": sections, "facts": facts, "notes": notes}
    write_whole(path, _file("answers.html.j2", scripts()[:1], "", **values))


def _file(template: str, texts: list[Markup], plotly: str, **values: Any) -> str:
    style = stylesheet()
    html = (
        templates("report")
        .get_template(template)
        .render(policy=_POLICY, style=style, scripts=texts, plotly=Markup(plotly), **values)
    )
    # The policy names the style attributes that the template has written, so it can only be made now.
    body, data, scripted = html.partition('<script type="application/json"')
    styles = [style, *(plotly_styles() if plotly else ())]
    policy = file_policy(body, [*texts, *([plotly] if plotly else ())], styles)
    return body.replace(_POLICY, policy, 1) + data + scripted


def templates(*folders: str) -> Environment:
    """Return the templates of folders of ``orchestrator``; inserted values are escaped and made visible."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("orchestrator", folder) for folder in folders]),
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


PLOTLY = Path(__file__).parent / "vendor" / "plotly-cartesian.min.js"
"""Plotly's own bundle of the flat charts, 1.5 MB; its bundle of all charts has 4.8 MB. See the folder's README."""


@cache
def plotly_source() -> str:
    """Return Plotly as one script."""
    return PLOTLY.read_text(encoding="utf-8")


@cache
def plotly_styles() -> tuple[str, ...]:
    """Return the contents of the style elements that Plotly makes."""
    return tuple(made_styles(plotly_source()))


def scripts() -> list[Markup]:
    """Return the scripts that all pages about an experiment share, the first for the head of the page."""
    folder = Path(__file__).parent
    return [Markup((folder / name).read_text(encoding="utf-8")) for name in SCRIPTS]


def stylesheet() -> Markup:
    """Return the style that all pages share."""
    return Markup((Path(__file__).parent / "report.css").read_text(encoding="utf-8"))


def embedded(data: Any) -> Markup:
    """Return packed JSON that fits inside a ``<script>`` element: no ``<`` is left in it."""
    shown = visible_values(data)
    # No two trials have the same row, and to look for lists that do takes a second of thousands of trials.
    rows = shown.pop("rows")
    whole = packed(shown)
    whole["data"]["rows"] = rows
    text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def plain_options(figure: Figure) -> list[dict[str, Any]]:
    """Return the data of a figure's charts as plain values."""
    options = [{"label": option.label, "panels": [vars(panel) for panel in option.panels]} for option in figure.options]
    return list(rounded(options))


def plain_runs(page: Page) -> dict[str, Any] | None:
    """Return the runs of the trials in MLflow as plain values for the page's script."""
    return None if page.runs is None else msgspec.structs.asdict(page.runs)


def plain_rows(columns: Sequence[Column], rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows of the leaderboard for the page's script, without the keys of the columns, to save space."""
    keys = [column.key for column in columns]
    return [
        {
            "id": row.id,
            "sort": [rounded(row.sort.get(key)) for key in keys],
            "shown": [row.shown.get(key, "") for key in keys],
            "state": row.state,
            "study": row.study,
            "details": {
                "names": [name for name, _ in row.details],
                "values": [value for _, value in row.details],
            },
        }
        for row in rows
    ]
