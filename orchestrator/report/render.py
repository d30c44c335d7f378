"""The page about an experiment as one HTML file, with its data, its scripts and Plotly."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup

from orchestrator.report.figures import Figure
from orchestrator.report.leaderboard import TrialColumn, TrialRow, texts_on_charts
from orchestrator.report.page import Page
from orchestrator.results.answer import Json
from orchestrator.text.values import visible_values
from orchestrator.views.html import asset, filled, policy, theme

ROUND = "%.6g"
"""Format of a coordinate, with six significant digits: the error is below a pixel on the widest screen."""

FEWEST = 8
"""Least number of items of a list that the data of a page hold once, because several charts of a trial repeat it."""

PLACE = "$list"
"""Key of the object that replaces a list, with the list's number."""

ROWS_SHOWN = 20
"""Number of leaderboard rows in the HTML itself, which the page shows before, and without, its script."""

CHARTS = (
    ("search", "Search", ("front", "trials", "curves", "budget", "early")),
    ("space", "Coefficients", ("parallel", "slices", "contours")),
    ("losses", "Losses", ("weights", "cocos")),
)
"""Sections of the page with charts: anchor, heading, keys of the figures; a section without a figure is left out."""

KEYS = frozenset(key for _, _, keys in CHARTS for key in keys)

PLOTLY = Path(__file__).parent / "vendor" / "plotly-cartesian.min.js"
"""Plotly's own bundle of the flat charts, 1.5 MB; its bundle of all charts has 4.8 MB. See the folder's README."""


UPLOAD = "https://cloud.plotly.com/newchart"
"""Plotly's preset of ``plotlyServerURL``. No setting of its bundler leaves out the code of the upload."""


def render_page(page: Page) -> str:
    """Return the page as HTML; every string of the page is escaped."""
    figures, lists = packed({key: options_of(figure) for key, figure in page.figures.items() if figure.options})
    data = embedded(figures=figures, lists=lists, rows=plain_rows(page.columns, page.rows), runs=page.runs)
    used, plotly = scripts(), Markup(plotly_source())
    values = {"policy": policy([*used, plotly]), "plotly": plotly, "data": data, **report_values(page)}
    return filled("report.html.j2", used, "report", **values)


def report_values(page: Page, live: Any = None) -> dict[str, Any]:
    """Return the values of ``report.html.j2`` that the page determines; a live page draws its figures later.

    ``live`` is the state of the experiment now.
    """
    drawable = KEYS if live else {key for key, figure in page.figures.items() if figure.options}
    return {"page": page, "live": live, "drawable": drawable, "charts_of_page": CHARTS, "rows_shown": ROWS_SHOWN}


@cache
def plotly_source() -> str:
    """Return Plotly as one script, without the address to which its button "Share chart..." would send a chart."""
    return PLOTLY.read_text(encoding="utf-8").replace(UPLOAD, "")


def scripts() -> list[Markup]:
    """Return the scripts of a page about an experiment: for its head, before Plotly, and after Plotly."""
    return [theme(), asset("report/leaderboard.js"), asset("report/charts.js")]


def embedded(**data: Any) -> Markup:
    """Return the data of a page as JSON that fits inside a ``<script>`` element: no ``<`` is left in it."""
    values = visible_values({"rowsShown": ROWS_SHOWN, **data, "runs": msgspec.to_builtins(data.get("runs"))})
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def options_of(figure: Figure) -> list[Json]:
    """Return the data of a figure's charts, with all digits."""
    return [{"label": option.label, "panels": [vars(panel) for panel in option.panels]} for option in figure.options]


def rounded(value: Any) -> Any:
    """Return plain values of a chart with as many digits as a screen shows."""
    if isinstance(value, float):
        return float(ROUND % value)
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    # Nearly all values are in lists of numbers or ids, and a call for each value takes longer than its rounding.
    if all(type(inner) is str for inner in value):
        return list(value)
    return [float(ROUND % inner) if type(inner) is float else rounded(inner) for inner in value]


def packed(value: Any) -> tuple[Any, list[Any]]:
    """Return ``rounded`` values in which ``{"$list": N}`` replaces each long list, and the lists, each once."""
    lists: list[Any] = []
    places: dict[str, Json] = {}
    known: dict[int, Json] = {}

    def place_of(value: Sequence[Any]) -> Json:
        short = rounded(value)
        text = json.dumps(short)
        if text not in places:
            places[text] = {PLACE: len(lists)}
            lists.append(short)
        return places[text]

    def pack(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: pack(inner) for name, inner in value.items()}
        if not isinstance(value, list | tuple):
            return rounded(value)
        # Charts of the same trials share lists, and to round and to write a list takes most of the time.
        if id(value) in known:
            return known[id(value)]
        if len(value) < FEWEST or not {dict, list, tuple}.isdisjoint(map(type, value)):
            return [pack(item) for item in value]
        known[id(value)] = place_of(value)
        return known[id(value)]

    return pack(value), lists


def plain_rows(columns: Sequence[TrialColumn], rows: Sequence[TrialRow]) -> list[dict[str, Any]]:
    """Return rows of the leaderboard for the page's script, without the keys of the columns, to save space."""
    keys, abouts = [column.key for column in columns], texts_on_charts(columns, rows)
    return [
        {
            "sort": rounded([row.sort.get(key) for key in keys]),
            "shown": [row.shown.get(key, "") for key in keys],
            "about": abouts[row.id],
            **{name: getattr(row, name) for name in ("id", "repeats", "state", "study", "details")},
        }
        for row in rows
    ]
