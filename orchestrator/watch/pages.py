"""The live pages as HTML: the report of an experiment with its state now, and the start page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from orchestrator.report.figures import Figure
from orchestrator.report.render import (
    ROWS_SHOWN,
    embedded,
    plain_options,
    plain_runs,
    plotly_styles,
    report_values,
    scripts,
    served_policy,
    set_aside_styles,
    stylesheet,
    templates,
)
from orchestrator.results.answer import Answer, Quantity
from orchestrator.text.wording import metric_words
from orchestrator.views.grid import cell_text
from orchestrator.watch.experiments import SMALL, Watched, stages_of
from trainables.errors import UserError

AT_ONCE = 2**19
"""Bytes of journals, beside the newest, that are read while the start page waits; the others follow in a thread."""


class Pages:
    """Renders pages; styles and scripts that all pages share are read once."""

    def __init__(self) -> None:
        self._templates = templates("watch", "report")
        folder = Path(__file__).parent
        self._style = Markup(stylesheet() + (folder / "watch.css").read_text(encoding="utf-8"))
        self._scripts = [*scripts(), Markup((folder / "live.js").read_text(encoding="utf-8"))]

    def experiment(self, watched: Watched, instance: str) -> tuple[str, str]:
        """Return the page of an experiment, and the page's Content-Security-Policy."""
        page = watched.page()
        values = report_values(page, watched.live())
        return self._page("report.html.j2", self._scripts, instance, runs=plain_runs(page), **values)

    def start(self, experiments: Sequence[Watched], title: str, instance: str) -> tuple[str, str]:
        """Return the start page, and the page's Content-Security-Policy."""
        cards: list[tuple[Any, ...]] = []
        left = AT_ONCE
        for watched in experiments:
            at_once = left if cards else SMALL
            left -= watched.size if cards and watched.size <= at_once else 0
            cards.append(_card(watched, at_once))
        theme, data, *_, live = self._scripts
        texts = [theme, data, live]
        return self._page("start.html.j2", texts, instance, None, cards=cards, title=title, measured=measured)

    def figure(self, figure: Figure, name: str) -> tuple[str, list[dict[str, Any]]]:
        """Return a figure, rendered as in the report, and the data of its charts; both empty without data."""
        if not figure.options:
            return "", []
        macros: Any = self._templates.get_template("macros.html.j2").module
        return set_aside_styles(str(macros.figure_card(figure, name))), plain_options(figure)

    def _page(
        self, template: str, texts: list[Markup], instance: str, runs: Any = None, **values: Any
    ) -> tuple[str, str]:
        data = embedded({"figures": {}, "rows": [], "rowsShown": ROWS_SHOWN, "instance": instance, "runs": runs})
        html = self._templates.get_template(template).render(
            policy="", style=self._style, scripts=texts, data=data, **values
        )
        written = html.partition('<script type="application/json"')[0]
        return html, served_policy(written, texts, [self._style, *plotly_styles()])


def _card(watched: Watched, at_once: int) -> tuple[Any, ...]:
    """Return an experiment's name, problem, status, stages and headline answers; without a status, it is being read."""
    if not watched.is_at_hand(at_once):
        return watched.name, None, None, (), ()
    try:
        with watched.lock:
            status = watched.status()
            return watched.name, watched.problem, status, stages_of(status), watched.headlines()
    except UserError as error:
        return watched.name, str(error), None, (), ()


def measured(answer: Answer) -> str:
    """Return the value of the winner with its interval; empty where the answer has none."""
    table = answer.table
    for column, cell in zip(table.columns, table.rows[0], strict=True) if table is not None else ():
        if column.shows == "apart" and isinstance(cell, Quantity):
            return f"{metric_words(column.unit)} {cell_text(cell, replace(column, shows='both'))}"
    return ""
