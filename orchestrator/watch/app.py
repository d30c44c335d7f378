"""The addresses of the live pages, and the response to a request for each address.

``/`` is the start page and ``/e/NAME/`` the page of an experiment. Below ``/e/NAME/`` are ``changes``, ``figures/KEY``,
``errors/TRIAL`` and ``events``, a stream that tells the browser when to request the other addresses again.
"""

import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from orchestrator.journal.directory import read_error
from orchestrator.report.page import figure_makers
from orchestrator.report.render import plain_rows, plotly_source, set_aside_styles
from orchestrator.report.studies import studies_of
from orchestrator.text.values import visible, visible_values
from orchestrator.watch.experiments import Experiments, Watched
from orchestrator.watch.guard import Guard, Rules
from orchestrator.watch.now import now_of
from orchestrator.watch.overview import overview_of
from orchestrator.watch.render import Pages, Part
from trainables.errors import UserError

LOOK_SECONDS = 0.25
"""Seconds between two checks whether a journal has grown, for each open page."""

NOW_SECONDS = 1.0
"""Least number of seconds between two messages about the current state."""

SILENT_SECONDS = 15.0
"""Seconds without news after which a stream sends a comment, so that the connection stays open."""


class Server:
    """Answers requests about experiments.

    Args:
        experiments: The watched experiments.
        title: Title of the start page.
        instance: Name that no other server has; a page reloads itself when a server with another name answers.
    """

    def __init__(self, experiments: Experiments, title: str, instance: str) -> None:
        self._experiments, self._title, self._instance = experiments, title, instance
        self._pages = Pages()

    def routes(self) -> list[Route]:
        """Return the routes: each address with the method that answers it."""
        return [
            Route("/", self.start),
            Route("/events", self.start_events),
            Route("/static/plotly.js", self.plotly),
            Route("/e/{name}/", self.experiment),
            Route("/e/{name}/changes", self.changes),
            Route("/e/{name}/figures/{key}", self.figure),
            Route("/e/{name}/errors/{trial}", self.error),
            Route("/e/{name}/events", self.events),
        ]

    def start(self, request: Request) -> Response:
        """Return the start page."""
        html, policy = self._pages.overview(overview_of(self._experiments.all(), self._title), self._instance)
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    def plotly(self, request: Request) -> Response:
        """Return the script of Plotly, which a browser keeps for a day."""
        # The Content-Security-Policy of the pages accepts scripts from this server, hence the media type of a script.
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(plotly_source(), media_type="text/javascript", headers=headers)

    def experiment(self, request: Request) -> Response:
        """Return the page of an experiment."""
        watched = self._find(request)
        with watched.lock:
            view = watched.view()
            html, policy = self._pages.experiment(view, now_of(watched), self._instance_of(watched))
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    def changes(self, request: Request) -> Response:
        """Return the current page, and the leaderboard rows that changed after the version in the request."""
        since = request.query_params.get("since", "0")
        watched = self._find(request)
        with watched.lock:
            view = watched.view()
            html, _ = self._pages.experiment(view, now_of(watched), self._instance_of(watched))
        changed = view.rows_since(int(since) if since.isdecimal() else 0)
        main = set_aside_styles(html[html.index("<main") : html.index("</main>") + len("</main>")])
        return _json({"version": view.version, "html": main, "rows": plain_rows(view.page.columns, changed)})

    def figure(self, request: Request) -> Response:
        """Return one figure with the current data."""
        watched = self._find(request)
        with watched.lock:
            view = watched.view()
            history = view.status.history
            makers = figure_makers(history, studies_of(history), watched.extras())
            key = request.path_params["key"]
            if key not in makers:
                raise HTTPException(404, "no such figure")
            figure = makers[key]()
        return _json(vars(self._pages.figure(view, figure)))

    def error(self, request: Request) -> Response:
        """Return the last output of the processes of a failed trial."""
        watched = self._find(request)
        watched.refresh()
        trial = request.path_params["trial"]
        # A name that the journal does not have must not become a path on the disk.
        text = read_error(watched.directory, trial) if trial in watched.followed.history.trials else None
        if text is None:
            raise HTTPException(404, "nothing is kept about this trial")
        return PlainTextResponse(visible(text))

    async def events(self, request: Request) -> Response:
        """Return the event stream of an experiment's page."""
        watched = self._find(request)

        def now() -> Part:
            return self._pages.now(now_of(watched))

        return _stream(lambda: self._instance_of(watched), now, "now", watched.refresh)

    async def start_events(self, request: Request) -> Response:
        """Return the event stream of the start page."""

        def cards() -> Part:
            return self._pages.cards(overview_of(self._experiments.all(), self._title))

        return _stream(lambda: self._instance, cards, "cards", None)

    def _find(self, request: Request) -> Watched:
        watched = self._experiments.find(request.path_params["name"])
        if watched is None:
            raise HTTPException(404, "no such experiment is watched")
        return watched

    def _instance_of(self, watched: Watched) -> str:
        return f"{self._instance}-{watched.followed.generation}"


def make_app(experiments: Experiments, rules: Rules, *, title: str, instance: str) -> Starlette:
    """Return the web application."""
    return Starlette(
        routes=Server(experiments, title, instance).routes(),
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={UserError: _refused},
    )


def _refused(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{visible(str(error))}\n", 500)


def _json(value: Any) -> Response:
    return JSONResponse(visible_values(value))


def _stream(
    instance: Callable[[], str], about: Callable[[], Part], name: str, version: Callable[[], int] | None
) -> Response:
    return StreamingResponse(_events(instance, about, name, version), media_type="text/event-stream")


async def _events(
    instance: Callable[[], str], about: Callable[[], Part], name: str, version: Callable[[], int] | None
) -> AsyncIterator[str]:
    """Yield the events of a page, each when its value changes: the server's name, the version, the rendered part.

    Versions and parts are made in threads, so that no page waits for another page.
    """
    told: dict[str, Any] = {}
    spoke = asked = time.monotonic() - NOW_SECONDS
    while True:
        news: dict[str, dict[str, Any]] = {"hello": {"instance": instance()}}
        if version is not None:
            news["version"] = {"version": await anyio.to_thread.run_sync(version)}
        if time.monotonic() - asked >= NOW_SECONDS:
            began = time.monotonic()
            news[name] = vars(await anyio.to_thread.run_sync(about))
            # A part that takes long to make is made less often, because the search needs the machine.
            asked = time.monotonic() + 4 * (time.monotonic() - began)
        for event, value in news.items():
            if told.get(event) != value:
                told[event], spoke = value, time.monotonic()
                yield f"event: {event}\ndata: {json.dumps(visible_values(value))}\n\n"
        if time.monotonic() - spoke >= SILENT_SECONDS:
            spoke = time.monotonic()
            yield ": still here\n\n"
        await anyio.sleep(LOOK_SECONDS)
