"""The live pages as HTML: an experiment's state and report, and a start page with one card for each experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from orchestrator.report.figures import Figure
from orchestrator.report.render import (
    ROWS_SHOWN,
    embedded,
    plain_options,
    plotly_styles,
    scripts,
    served_policy,
    set_aside_styles,
    stylesheet,
    templates,
)
from orchestrator.watch.experiments import View
from orchestrator.watch.now import Now
from orchestrator.watch.overview import Overview

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Part:
    """A part of a page, which a script inserts into the page.

    Attributes:
        html: HTML of the part.
        options: Data of the part's charts, as plain values; empty where the part has no chart.
    """

    html: str
    options: Sequence[Mapping[str, Any]] = ()


class Pages:
    """Renders pages; styles and scripts that all pages share are read once."""

    def __init__(self) -> None:
        self._templates: Environment = templates("watch", "report")
        self._style = Markup(stylesheet() + (FOLDER / "watch.css").read_text(encoding="utf-8"))
        theme, *shared = scripts()
        self._theme = theme
        self._shared = shared
        self._stream, self._watch, self._start = (
            Markup((FOLDER / name).read_text(encoding="utf-8")) for name in ("stream.js", "watch.js", "overview.js")
        )

    def experiment(self, view: View, now: Now, instance: str) -> tuple[str, str]:
        """Return the page of an experiment, and the page's Content-Security-Policy."""
        data = {
            "figures": {},
            "rows": [],
            "rowsShown": ROWS_SHOWN,
            "instance": instance,
            "name": view.status.name,
            "runs": None if view.page.runs is None else vars(view.page.runs),
        }
        texts = [self._theme, *self._shared, self._stream, self._watch]
        return self._page("watch.html.j2", texts, page=view.page, now=now, data=embedded(data))

    def overview(self, overview: Overview, instance: str) -> tuple[str, str]:
        """Return the start page, and the page's Content-Security-Policy."""
        data = {
            "figures": {},
            "rows": [],
            "rowsShown": 0,
            "instance": instance,
        }
        texts = [self._theme, *self._shared, self._stream, self._start]
        return self._page("overview.html.j2", texts, overview=overview, data=embedded(data))

    def now(self, now: Now) -> Part:
        """Return the part of a page that shows the current state."""
        return Part(self._templates.get_template("now.html.j2").render(now=now))

    def cards(self, overview: Overview) -> Part:
        """Return the cards and the charts of the start page."""
        html = self._templates.get_template("cards.html.j2").render(overview=overview)
        return Part(html, plain_options(overview.figure) if overview.figure else ())

    def figure(self, view: View, figure: Figure) -> Part:
        """Return a figure, rendered with the template of the report."""
        page = replace(view.page, figures={figure.key: figure})
        html = self._templates.get_template("figure.html.j2").render(
            page=page, key=figure.key, policy="", rows_shown=0, style="", scripts=[""], plotly="", data=""
        )
        return Part(set_aside_styles(html), plain_options(figure))

    def _page(self, template: str, texts: list[Markup], **values: Any) -> tuple[str, str]:
        html = self._templates.get_template(template).render(
            rows_shown=ROWS_SHOWN, style=self._style, scripts=texts, **values
        )
        written = html.partition('<script type="application/json"')[0]
        return html, served_policy(written, texts, [self._style, *plotly_styles()])
