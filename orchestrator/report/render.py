"""The page as one HTML file: template, styles, scripts and plotly in it, and a policy that forbids any request."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.report.experiments_page import ExperimentsPage
from orchestrator.report.figures import Figure
from orchestrator.report.page import Page
from orchestrator.text.values import visible, visible_values
from trainables.files import write_whole

SCRIPTS = ("theme.js", "leaderboard.js", "charts.js")
ROWS_SHOWN = 20
"""Rows of the leaderboard that are there before, and without, its script."""


def write_report(page: Page, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, render(page))


def write_experiments(page: ExperimentsPage, path: Path) -> None:
    """Write the page over several experiments whole, or not at all."""
    write_whole(path, render_experiments(page))


def render(page: Page) -> str:
    """Return the page as HTML; every string of the page is text in it, whatever it holds."""
    return _render("report.html.j2", page, {"rows": _rows(page), "rowsShown": ROWS_SHOWN})


def render_experiments(page: ExperimentsPage) -> str:
    """Return the page over several experiments as HTML; every string of the page is text in it."""
    return _render("experiments.html.j2", page, {"rows": [], "rowsShown": ROWS_SHOWN})


def _render(template: str, page: Page | ExperimentsPage, data: dict[str, Any]) -> str:
    from plotly.offline import get_plotlyjs

    folder = Path(__file__).parent
    return (
        templates("report")
        .get_template(template)
        .render(
            page=page,
            rows_shown=ROWS_SHOWN,
            style=stylesheet(),
            scripts=[Markup((folder / name).read_text(encoding="utf-8")) for name in SCRIPTS],
            plotly=Markup(get_plotlyjs()),
            data=_embedded({"figures": _figures(page.figures), **data}),
        )
    )


def templates(folder: str) -> Environment:
    """Return the templates of a folder of ``orchestrator``; what they print is escaped and made visible."""
    return Environment(
        loader=PackageLoader("orchestrator", folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )


def stylesheet() -> Markup:
    """Return the style that all pages share."""
    return Markup((Path(__file__).parent / "report.css").read_text(encoding="utf-8"))


def _embedded(data: Any) -> Markup:
    """Return JSON that can stand inside a ``<script>`` element: no ``<`` is left in it."""
    text = json.dumps(visible_values(data), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _figures(figures: dict[str, Figure]) -> dict[str, Any]:
    return {key: {"options": asdict(figure)["options"]} for key, figure in figures.items() if figure.options}


def _rows(page: Page) -> list[dict[str, Any]]:
    """Return the rows; the columns in the order of the page's, to name no key a thousand times."""
    keys = [column.key for column in page.columns]
    return [
        {
            "id": row.id,
            "sort": [row.sort[key] for key in keys],
            "shown": [row.shown[key] for key in keys],
            "state": row.state,
            "study": row.study,
            "details": row.details,
        }
        for row in page.rows
    ]
