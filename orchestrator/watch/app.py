"""The addresses of the live pages, and the response to a request for each address.

``/`` is the start page and ``/e/NAME/`` the page of an experiment: its report with its state now. The name of a rerun
is ``SUITE:TIME``. Below each page are
``events``, a stream that informs the browser when the page has changed, and ``changes``, the page as it is then. Below
``/e/NAME/`` are also ``figures/KEY`` and ``errors/TRIAL``.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from orchestrator.journal.directory import read_error
from orchestrator.report.render import embedded, options_of, plain_rows, plotly_source, report_values, rounded, scripts
from orchestrator.results.answer import Answer, Quantity
from orchestrator.results.answers import Summary, measure_of
from orchestrator.text.values import visible, visible_values
from orchestrator.text.wording import metric_words
from orchestrator.views.grid import cell_text
from orchestrator.views.html import asset, filled, policy, templates
from orchestrator.watch.experiments import Experiments, Watched, stages_of
from trainables.errors import UserError
from trainables.metric_table import without_section

LOOK_SECONDS = 0.25
"""Seconds between two checks whether a journal has grown, for each open page."""

SILENT_SECONDS = 15.0
"""Seconds without news after which a stream sends a comment, so that the connection stays open."""

PATIENCE = 0.5
"""Seconds for which the start page waits for journals that are read for the first time."""

ROOMS = ("report", "watch")


class Server:
    """Answers requests about experiments.

    Args:
        experiments: The watched experiments.
        title: Title of the start page.
        instance: Name that no other server has; a page reloads itself when a server with another name answers.
    """

    def __init__(self, experiments: Experiments, title: str, instance: str) -> None:
        self._experiments, self._title, self._instance = experiments, title, instance

    def routes(self) -> list[Route]:
        """Return the routes: each address with the method that answers it."""
        parts = {"": self.page, "changes": self.changes, "events": self.events}
        return [
            *(Route(f"{page}{part}", answer) for page in ("/", "/e/{name}/") for part, answer in parts.items()),
            Route("/static/plotly.js", self.plotly),
            Route("/e/{name}/figures/{key}", self.figure),
            Route("/e/{name}/errors/{trial}", self.error),
        ]

    def page(self, request: Request) -> Response:
        """Return the start page, or the page of an experiment."""
        watched = self._asked(request)
        headers = {"Content-Security-Policy": policy(page_scripts(watched), served=True)}
        return HTMLResponse(self.html(watched), headers=headers)

    def html(self, watched: Watched | None) -> str:
        """Return the page of an experiment, or else the start page."""
        about = {"policy": "", "instance": self._instance_of(watched)}
        if watched is not None:
            with watched.lock:
                seen = watched.seen()
                data = embedded(figures={}, rows=[], runs=seen.page.runs)
                values = report_values(seen.page, seen.live)
                return filled("report.html.j2", page_scripts(watched), *ROOMS, data=data, **about, **values)
        experiments = self._experiments.all()
        wait([experiment.reading() for experiment in experiments], PATIENCE)
        cards = [_card(experiment) for experiment in experiments]
        shown = {"cards": cards, "title": self._title, "measured": winner_value, "measures": _measures(experiments)}
        return filled("start.html.j2", page_scripts(None), *ROOMS, **about, **shown)

    def changes(self, request: Request) -> Response:
        """Return the current page, and the leaderboard rows that changed after the version in the request."""
        watched, since = self._asked(request), request.query_params.get("since", "0")
        if watched is None:
            return _json({"html": _changing(self.html(None)), "rows": [], "since": 0})
        with watched.lock:
            # The journal is read here alone: rows of a later record would be missed by a browser that has its version.
            html = self.html(watched)
            changed = watched.rows_since(int(since) if since.isdecimal() else 0)
            rows = plain_rows(watched.page.columns, changed)
            return _json({"html": _changing(html), "rows": rows, "since": watched.followed.version})

    async def events(self, request: Request) -> Response:
        """Return the event stream of a page."""
        watched = self._asked(request)

        def news() -> dict[str, str]:
            if watched is not None:
                # The version first: it reads the journal, which another one may have replaced.
                return {"version": watched.version(), "instance": self._instance_of(watched)}
            versions = [f"{known.name} {known.version()}" for known in self._experiments.all()]
            return {"version": "\n".join(versions), "instance": self._instance}

        return StreamingResponse(_events(news), media_type="text/event-stream")

    def plotly(self, request: Request) -> Response:
        """Return the script of Plotly, which a browser keeps for a day."""
        # The Content-Security-Policy of the pages accepts scripts from this server, hence the media type of a script.
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(plotly_source(), media_type="text/javascript", headers=headers)

    def figure(self, request: Request) -> Response:
        """Return one figure with the current data, rendered as in the report; no HTML where the figure has no data."""
        watched, key = self._find(request), request.path_params["key"]
        with watched.lock:
            page = watched.seen().page
            if key not in page.makers:
                raise HTTPException(404, "no such figure")
            figure = page.makers[key]()
        macros: Any = templates(*ROOMS).get_template("figure.html.j2").module
        html = str(macros.figure_card(figure, page.name)) if figure.options else ""
        return _json({"html": html, "options": rounded(options_of(figure))})

    def error(self, request: Request) -> Response:
        """Return the last output of the processes of a failed trial."""
        watched, trial = self._find(request), request.path_params["trial"]
        watched.seen()
        # A name that the journal does not have must not become a path on the disk.
        text = read_error(watched.directory, trial) if trial in watched.followed.history.trials else None
        if text is None:
            raise HTTPException(404, "nothing is kept about this trial")
        return PlainTextResponse(visible(text))

    def _asked(self, request: Request) -> Watched | None:
        """Return the experiment whose page is meant; ``None`` for the start page."""
        return self._find(request) if "name" in request.path_params else None

    def _find(self, request: Request) -> Watched:
        watched = self._experiments.find(request.path_params["name"])
        if watched is None:
            raise HTTPException(404, "no such experiment is watched")
        return watched

    def _instance_of(self, watched: Watched | None) -> str:
        return self._instance if watched is None else f"{self._instance}-{watched.followed.generation}"


def page_scripts(watched: Watched | None) -> list[Markup]:
    """Return the scripts of the page of an experiment, or else of the start page."""
    of_page = scripts()
    return [*(of_page[:1] if watched is None else of_page), asset("watch/live.js")]


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


def _measures(experiments: Iterable[Watched]) -> list[str]:
    """Return what the metrics of the experiments that have been read measure, each once."""
    summaries: dict[str, list[Summary]] = {}
    # Whoever reads a journal holds the lock.
    for watched in (watched for watched in experiments if watched.reading().done()):
        with suppress(UserError), watched.lock:
            if watched.seen().headlines:
                summaries.setdefault(without_section(watched.summary.history.metric), []).append(watched.summary)
    return [measure_of(metric, known) for metric, known in summaries.items()]


def winner_value(answer: Answer) -> str:
    """Return the value of the winner with its interval; empty where the answer has none."""
    table = answer.table
    for column, cell in zip(table.columns, table.rows[0], strict=True) if table is not None else ():
        if column.shows == "apart" and isinstance(cell, Quantity):
            return f"{metric_words(column.unit)} {cell_text(cell, replace(column, shows='both'))}"
    return ""


def _changing(html: str) -> str:
    """Return the part of a page that its script replaces."""
    return html[html.index("<nav") : html.index("</main>") + len("</main>")]


def _json(value: Any) -> Response:
    return JSONResponse(visible_values(value))


async def _events(news: Callable[[], dict[str, str]]) -> AsyncIterator[str]:
    """Yield an event when the server's name or the version of a page has changed.

    The news are made in a thread, so that no page waits for another page.
    """
    sent: dict[str, str] = {}
    spoke = time.monotonic()
    while True:
        latest_news = await anyio.to_thread.run_sync(news)
        if latest_news != sent:
            sent, spoke = latest_news, time.monotonic()
            yield f"event: news\ndata: {json.dumps(visible_values(latest_news))}\n\n"
        elif time.monotonic() - spoke >= SILENT_SECONDS:
            spoke = time.monotonic()
            yield ": still here\n\n"
        await anyio.sleep(LOOK_SECONDS)
