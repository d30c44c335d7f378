"""The addresses of the live pages, and the response to a request for each address.

``/`` is the start page and ``/e/NAME/`` the page of an experiment. Below each page are ``events``, a stream that tells
the browser when the page has changed, and ``changes``, the page as it is then. Below ``/e/NAME/`` are also
``figures/KEY`` and ``errors/TRIAL``.
"""

import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from orchestrator.journal.directory import read_error
from orchestrator.report.render import plain_rows, plotly_source
from orchestrator.text.values import visible, visible_values
from orchestrator.watch.experiments import Experiments, Watched
from orchestrator.watch.guard import Guard
from orchestrator.watch.pages import experiment_page, figure_part, start_page
from trainables.errors import UserError

LOOK_SECONDS = 0.25
"""Seconds between two checks whether a journal has grown, for each open page."""

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

    def routes(self) -> list[Route]:
        """Return the routes: each address with the method that answers it."""
        return [
            Route("/", self.start),
            Route("/changes", self.start_changes),
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
        return _page(*start_page(self._experiments.all(), self._title, self._instance))

    def start_changes(self, request: Request) -> Response:
        """Return the current start page."""
        html, _ = start_page(self._experiments.all(), self._title, self._instance)
        return _json({"html": _changing(html), "rows": [], "since": 0})

    def plotly(self, request: Request) -> Response:
        """Return the script of Plotly, which a browser keeps for a day."""
        # The Content-Security-Policy of the pages accepts scripts from this server, hence the media type of a script.
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(plotly_source(), media_type="text/javascript", headers=headers)

    def experiment(self, request: Request) -> Response:
        """Return the page of an experiment."""
        watched = self._find(request)
        with watched.lock:
            return _page(*experiment_page(watched, self._instance_of(watched)))

    def changes(self, request: Request) -> Response:
        """Return the current page, and the leaderboard rows that changed after the version in the request."""
        since = request.query_params.get("since", "0")
        watched = self._find(request)
        with watched.lock:
            html, _ = experiment_page(watched, self._instance_of(watched))
            changed = watched.rows_since(int(since) if since.isdecimal() else 0)
            rows = plain_rows(watched.seen().page.columns, changed)
            return _json({"html": _changing(html), "rows": rows, "since": watched.followed.version})

    def figure(self, request: Request) -> Response:
        """Return one figure with the current data; no HTML where the figure has no data."""
        watched = self._find(request)
        with watched.lock:
            page, key = watched.seen().page, request.path_params["key"]
            if key not in page.makers:
                raise HTTPException(404, "no such figure")
            html, options = figure_part(page.makers[key](), page.name)
        return _json({"html": html, "options": options})

    def error(self, request: Request) -> Response:
        """Return the last output of the processes of a failed trial."""
        watched = self._find(request)
        watched.seen()
        trial = request.path_params["trial"]
        # A name that the journal does not have must not become a path on the disk.
        text = read_error(watched.directory, trial) if trial in watched.followed.history.trials else None
        if text is None:
            raise HTTPException(404, "nothing is kept about this trial")
        return PlainTextResponse(visible(text))

    async def events(self, request: Request) -> Response:
        """Return the event stream of an experiment's page."""
        watched = self._find(request)

        def news() -> dict[str, str]:
            version = watched.version()
            return {"instance": self._instance_of(watched), "version": version}

        return _stream(news)

    async def start_events(self, request: Request) -> Response:
        """Return the event stream of the start page."""

        def news() -> dict[str, str]:
            versions = [f"{watched.name} {watched.version()}" for watched in self._experiments.all()]
            return {"instance": self._instance, "version": "\n".join(versions)}

        return _stream(news)

    def _find(self, request: Request) -> Watched:
        watched = self._experiments.find(request.path_params["name"])
        if watched is None:
            raise HTTPException(404, "no such experiment is watched")
        return watched

    def _instance_of(self, watched: Watched) -> str:
        return f"{self._instance}-{watched.followed.generation}"


def make_app(experiments: Experiments, token: str | None, *, host: str, title: str, instance: str) -> Starlette:
    """Return the web application.

    Args:
        experiments: The watched experiments.
        token: Token that requests must have; ``None`` where no token is needed.
        host: Name or address to which the server is bound.
        title: Title of the start page.
        instance: See ``Server``.
    """
    # Pages of a foreign name that leads here have no cookie with the token, so a server with a token may have any name.
    names = ["localhost", "127.0.0.1", "[::1]", host] if token is None else ["*"]
    return Starlette(
        routes=Server(experiments, title, instance).routes(),
        middleware=[
            Middleware(Guard, token=token),
            Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False),
        ],
        exception_handlers={UserError: _refused},
    )


def _refused(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{visible(str(error))}\n", 500)


def _page(html: str, policy: str) -> Response:
    return HTMLResponse(html, headers={"Content-Security-Policy": policy})


def _changing(html: str) -> str:
    """Return the part of a page that its script replaces."""
    return html[html.index("<nav") : html.index("</main>") + len("</main>")]


def _json(value: Any) -> Response:
    return JSONResponse(visible_values(value))


def _stream(news: Callable[[], dict[str, str]]) -> Response:
    return StreamingResponse(_events(news), media_type="text/event-stream")


async def _events(news: Callable[[], dict[str, str]]) -> AsyncIterator[str]:
    """Yield an event when the server's name or the version of a page has changed.

    The news are made in a thread, so that no page waits for another page.
    """
    sent: dict[str, str] = {}
    spoke = time.monotonic()
    while True:
        found = await anyio.to_thread.run_sync(news)
        if found != sent:
            sent, spoke = found, time.monotonic()
            yield f"event: news\ndata: {json.dumps(visible_values(found))}\n\n"
        elif time.monotonic() - spoke >= SILENT_SECONDS:
            spoke = time.monotonic()
            yield ": still here\n\n"
        await anyio.sleep(LOOK_SECONDS)
