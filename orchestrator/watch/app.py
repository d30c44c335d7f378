"""The pages behind their addresses.

``/`` is the start page, ``/e/NAME/`` an experiment; below it ``changes``, ``figures/KEY``, ``errors/TRIAL`` and
``events``, the stream that says when to ask for the others.
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

from orchestrator.journal.error_logs import read_error
from orchestrator.report.page import figure_makers
from orchestrator.report.policy import set_aside_styles
from orchestrator.report.render import plain_rows, plotly_source
from orchestrator.report.studies import studies_of
from orchestrator.text.values import visible, visible_values
from orchestrator.watch.experiments import Experiments, Watched
from orchestrator.watch.guard import Guard, Rules
from orchestrator.watch.machine import Machines
from orchestrator.watch.now import now_of
from orchestrator.watch.overview import overview_of
from orchestrator.watch.render import Pages, Part
from trainables.errors import UserError

LOOK_SECONDS = 0.25
"""Between two looks at whether a journal has grown, for a page that is open."""

NOW_SECONDS = 1.0
"""Between two messages about what happens now."""

SILENT_SECONDS = 15.0
"""After which a stream without news says that it is alive."""


class Server:
    """Answers requests about experiments.

    Args:
        experiments: That are watched.
        title: Of the start page.
        instance: That no other server has; a page that meets another one loads itself again.
    """

    def __init__(self, experiments: Experiments, title: str, instance: str) -> None:
        self._experiments, self._title, self._instance = experiments, title, instance
        self._machines, self._pages = Machines(), Pages()

    def routes(self) -> list[Route]:
        """Return what is behind which address."""
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
        """Return plotly, which a browser asks for once."""
        # The policy names the server as a source of scripts, so the answer has to be one.
        headers = {"Cache-Control": "private, max-age=86400"}
        return Response(plotly_source(), media_type="text/javascript", headers=headers)

    def experiment(self, request: Request) -> Response:
        """Return the page of an experiment."""
        watched = self._find(request)
        with watched.lock:
            view = watched.view()
            html, policy = self._pages.experiment(view, now_of(watched, self._machines), self._instance_of(watched))
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    def changes(self, request: Request) -> Response:
        """Return the page anew, and the rows of the leaderboard that have changed after a version."""
        since = request.query_params.get("since", "0")
        watched = self._find(request)
        with watched.lock:
            view = watched.view()
            html, _ = self._pages.experiment(view, now_of(watched, self._machines), self._instance_of(watched))
        changed = view.rows_since(int(since) if since.isdecimal() else 0)
        main = set_aside_styles(html[html.index("<main") : html.index("</main>") + len("</main>")])
        return _json({"version": view.version, "html": main, "rows": plain_rows(view.page.columns, changed)})

    def figure(self, request: Request) -> Response:
        """Return one figure as it is now."""
        watched = self._find(request)
        with watched.lock:
            view = watched.view()
            history = watched.followed.history
            makers = figure_makers(history, studies_of(history), watched.extras())
            key = request.path_params["key"]
            if key not in makers:
                raise HTTPException(404, "no such figure")
            figure = makers[key]()
        return _json(vars(self._pages.figure(view, figure)))

    def error(self, request: Request) -> Response:
        """Return what the processes of a trial that failed printed last."""
        watched = self._find(request)
        watched.refresh()
        trial = request.path_params["trial"]
        # Only names that the journal has are looked for on the disk.
        text = read_error(watched.directory, trial) if trial in watched.followed.history.trials else None
        if text is None:
            raise HTTPException(404, "nothing is kept about this trial")
        return PlainTextResponse(visible(text))

    async def events(self, request: Request) -> Response:
        """Return the stream of an experiment."""
        watched = self._find(request)

        def now() -> Part:
            return self._pages.now(now_of(watched, self._machines))

        return _stream(lambda: self._instance_of(watched), now, "now", watched.refresh)

    async def start_events(self, request: Request) -> Response:
        """Return the stream of the start page."""

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
    """Return the application that a server runs."""
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
    """Yield the events of a page: which server this is, each new version, and what is told of it where that is new.

    What takes time is done in threads, so that one page waits for no other.
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
            # What takes long to tell is told less often: the search has the machine.
            asked = time.monotonic() + 4 * (time.monotonic() - began)
        for event, value in news.items():
            if told.get(event) != value:
                told[event], spoke = value, time.monotonic()
                yield f"event: {event}\ndata: {json.dumps(visible_values(value))}\n\n"
        if time.monotonic() - spoke >= SILENT_SECONDS:
            spoke = time.monotonic()
            yield ": still here\n\n"
        await anyio.sleep(LOOK_SECONDS)
