"""The page as one HTML file with styles, scripts and Plotly, and a policy that forbids any request."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.report.experiments_page import ExperimentsPage
from orchestrator.report.figures import Figure
from orchestrator.report.leaderboard import Column, Row
from orchestrator.report.packed import packed, rounded
from orchestrator.report.page import Page
from orchestrator.report.policy import file_policy, made_styles
from orchestrator.text.values import visible, visible_values
from trainables.files import write_whole

SCRIPTS = ("theme.js", "data.js", "leaderboard.js", "charts.js")
"""Scripts of a page: the first is in the page's head, the next two come before Plotly, the last after Plotly."""
ROWS_SHOWN = 20
"""Number of leaderboard rows in the HTML itself, which the page shows before, and without, its script."""

_POLICY = "policy-of-the-page"
"""Placeholder of the policy until the page is rendered."""


def write_report(page: Page, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, render(page))


def write_experiments(page: ExperimentsPage, path: Path) -> None:
    """Write the page over several experiments whole, or not at all."""
    write_whole(path, render_experiments(page))


def render(page: Page) -> str:
    """Return the page as HTML; every string of the page is escaped."""
    return _render("report.html.j2", page, {"rows": plain_rows(page.columns, page.rows), "rowsShown": ROWS_SHOWN})


def render_experiments(page: ExperimentsPage) -> str:
    """Return the page over several experiments as HTML; every string of the page is escaped."""
    return _render("experiments.html.j2", page, {"rows": [], "rowsShown": ROWS_SHOWN})


def _render(template: str, page: Page | ExperimentsPage, data: dict[str, Any]) -> str:
    plotly, texts, style = plotly_source(), scripts(), stylesheet()
    html = (
        templates("report")
        .get_template(template)
        .render(
            page=page,
            rows_shown=ROWS_SHOWN,
            policy=_POLICY,
            style=style,
            scripts=texts,
            plotly=Markup(plotly),
            data=embedded({"figures": _figures(page.figures), **data}),
        )
    )
    # The policy names the style attributes that the template has written, so it can only be made now.
    before, _, after = html.partition('<script type="application/json"')
    head, _, body = before.partition(_POLICY)
    return "".join(
        [
            head,
            file_policy(body, [*texts, plotly], [style, *plotly_styles()]),
            body,
            '<script type="application/json"',
            after,
        ]
    )


def templates(*folders: str) -> Environment:
    """Return the templates of folders of ``orchestrator``; inserted values are escaped and made visible."""
    return Environment(
        loader=ChoiceLoader([PackageLoader("orchestrator", folder) for folder in folders]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )


@cache
def plotly_source() -> str:
    """Return Plotly as one script of 5 MB."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


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
    """Return packed JSON that can stand inside a ``<script>`` element: no ``<`` is left in it."""
    text = json.dumps(packed(visible_values(data)), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _figures(figures: dict[str, Figure]) -> dict[str, Any]:
    return {key: {"options": plain_options(figure)} for key, figure in figures.items() if figure.options}


def plain_options(figure: Figure) -> list[dict[str, Any]]:
    """Return the data of a figure's charts as plain values."""
    options = [{"label": option.label, "panels": [vars(panel) for panel in option.panels]} for option in figure.options]
    return list(rounded(options))


def plain_rows(columns: Sequence[Column], rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows of the leaderboard for the page's script, without the keys of the columns, to save space."""
    keys = [column.key for column in columns]
    return [
        {
            "id": row.id,
            "sort": [row.sort[key] for key in keys],
            "shown": [row.shown[key] for key in keys],
            "state": row.state,
            "study": row.study,
            "details": {
                "names": [name for name, _ in row.details],
                "values": [value for _, value in row.details],
            },
        }
        for row in rows
    ]
