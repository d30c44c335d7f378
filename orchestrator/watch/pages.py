"""The live pages as HTML: the report of an experiment with its state now, and the start page."""

from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from orchestrator.report.figures import Figure
from orchestrator.report.render import embedded, plain_options, report_values, scripts
from orchestrator.results.answer import Answer, Quantity
from orchestrator.text.wording import metric_words
from orchestrator.views.grid import cell_text
from orchestrator.views.html import policy, stylesheet, templates
from orchestrator.watch.experiments import Watched, stages_of
from trainables.errors import UserError

PATIENCE = 0.5
"""Seconds for which the start page waits for journals that are read for the first time."""

ROOMS = ("report", "watch")


def experiment_page(watched: Watched, instance: str) -> tuple[str, str]:
    """Return the page of an experiment, and the page's Content-Security-Policy."""
    seen = watched.seen()
    data = embedded(figures={}, rows=[], runs=seen.page.runs)
    values = report_values(seen.page, seen.live)
    return _page("report.html.j2", [*scripts(), _follow()], instance, data=data, **values)


def start_page(experiments: Sequence[Watched], title: str, instance: str) -> tuple[str, str]:
    """Return the start page, and the page's Content-Security-Policy."""
    wait([watched.reading() for watched in experiments], PATIENCE)
    cards = [_card(watched) for watched in experiments]
    texts = [scripts()[0], _follow()]
    return _page("start.html.j2", texts, instance, cards=cards, title=title, measured=measured)


def figure_part(figure: Figure, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a figure, rendered as in the report, and the data of its charts; both empty without data."""
    if not figure.options:
        return "", []
    macros: Any = templates(*ROOMS).get_template("figure.html.j2").module
    return str(macros.figure_card(figure, name)), plain_options(figure)


def _follow() -> Markup:
    return Markup((Path(__file__).parent / "live.js").read_text(encoding="utf-8"))


def _page(template: str, texts: list[Markup], instance: str, **values: Any) -> tuple[str, str]:
    values = {"policy": "", "style": stylesheet(*ROOMS), "scripts": texts, "instance": instance, **values}
    return templates(*ROOMS).get_template(template).render(**values), policy(texts, served=True)


def _card(watched: Watched) -> tuple[Any, ...]:
    """Return an experiment's name, problem, status, stages and headline answers; without a status, it is being read."""
    if not watched.reading().done():
        return watched.name, None, None, (), ()
    try:
        with watched.lock:
            seen = watched.seen()
            return watched.name, watched.problem, seen.status, stages_of(seen.status), seen.headlines
    except UserError as error:
        return watched.name, str(error), None, (), ()


def measured(answer: Answer) -> str:
    """Return the value of the winner with its interval; empty where the answer has none."""
    table = answer.table
    for column, cell in zip(table.columns, table.rows[0], strict=True) if table is not None else ():
        if column.shows == "apart" and isinstance(cell, Quantity):
            return f"{metric_words(column.unit)} {cell_text(cell, replace(column, shows='both'))}"
    return ""
