"""The server of the live pages, and who may ask it; its socket is bound before its address is printed.

``Guard`` stands beside Starlette's checks of method and Host header (against DNS rebinding). Where a token is set,
every request needs the token. It comes once in the address, then in a cookie that scripts and other sites cannot read.
``machines.visitors`` says under which name.
"""

import asyncio
import errno
import hmac
import ipaddress
import os
import secrets
import socket
from types import FrameType
from urllib.parse import quote, unquote, urlencode

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.machines.visitors import is_foreign, own_name, own_place
from orchestrator.text.values import visible
from orchestrator.watch.app import Server
from orchestrator.watch.experiments import Experiments
from trainables.errors import ConfigError, UserError

TOKEN = "ORCHESTRATOR_WATCH_TOKEN"
"""Environment variable that holds the token: a command line can be read by all users of a machine."""

SHORTEST = 16
"""Least number of characters of a token."""

NICENESS = 3
"""Niceness of the server: the search on the same machine goes first, but a page on a busy machine must still answer."""

CONNECTIONS = 256
"""Most connections at a time: each page that is open keeps one, and a process may have 1,024 open files."""

REQUEST_SECONDS = 10.0
"""Seconds in which a connection must have sent its whole request."""

LARGEST_HEADER = 2**15
"""Most bytes of a request's header."""

COOKIE = "orchestrator_watch"
"""Start of the name of the cookie that holds the token; the server's port follows, because cookies ignore ports."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Headers of every response that does not set these headers itself."""


class Guard:
    """Refuses requests of other sites and requests without the token, and adds ``HEADERS`` to every response."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass the request on to the application."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(Request(scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Return the response to a request that is not passed on; ``None`` for a request that is passed on."""
        if is_foreign(request.headers):
            return PlainTextResponse("refused: a page of another site asks\n", 403)
        if self._token is None:
            return None
        token, cookie = request.query_params.get("token"), f"{COOKIE}_{request.url.port or 80}"
        if self._is_right(token):
            if (place := own_place(request.headers.get("host", ""), self._token)) is not None:
                return RedirectResponse(str(request.url.replace(netloc=place)), 303)
            # The browser then shows and remembers an address without the token.
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            response = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(cookie, quote(self._token), httponly=True, samesite="strict", path="/")
            return response
        if self._is_right(unquote(request.cookies.get(cookie, ""))):
            return None
        return PlainTextResponse("refused: open the address with ?token=... and the token of this server\n", 401)

    def _is_right(self, token: str | None) -> bool:
        # The comparison takes the same time for every wrong token.
        return hmac.compare_digest((token or "").encode(), (self._token or "").encode())


class Listening:
    """A bound socket, whose connections wait until ``serve`` answers them; port 0 lets the system choose a free port.

    Attributes:
        host: Name or address to which the socket is bound.
        token: Token that requests must have; ``None`` where no token is needed, because it was ``None`` or empty.

    Raises:
        ConfigError: If host, port or token is refused, or other machines could read the pages without a token.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self.host, self.token = f"[{host}]" if ":" in host else host, token or None
        if self.token is None and not _is_loopback(host):
            raise ConfigError(
                f"--host {host}: others could read the pages without a token; set {TOKEN} to at least {SHORTEST} "
                f"secret characters, or leave out --host and use ssh -L"
            )
        if self.token is not None and len(self.token) < SHORTEST:
            raise ConfigError(f"{TOKEN}: has {len(self.token)} characters; a token needs at least {SHORTEST}")
        self.socket = _bind(host, port)

    def address(self, name: str = "") -> str:
        """Return the URL of the page of an experiment, or of the start page, with the token where one is set."""
        page = f"e/{quote(name)}/" if name else ""
        query = "" if self.token is None else f"?{urlencode({'token': self.token})}"
        host = own_name(self.token) if self.token is not None and _is_loopback(self.host.strip("[]")) else self.host
        return f"http://{host}:{self.socket.getsockname()[1]}/{page}{query}"


class _Connection(H11Protocol):
    """A connection that has to send its request in time; uvicorn would wait for ever for the rest of a header."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse a connection beyond ``CONNECTIONS``, and begin to wait for the request of any other."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > CONNECTIONS:
            self.transport.abort()
        else:
            self._wait(True)

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the request is whole; a part of the next request starts the time again."""
        super().data_received(data)
        self._wait(self.conn.their_state in (h11.IDLE, h11.SEND_BODY))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait(False)
        super().connection_lost(exc)

    def _wait(self, for_request: bool) -> None:
        # A further part of a request does not prolong the time.
        if for_request and self._overdue is None:
            self._overdue = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        elif not for_request and self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class _Uvicorn(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at once: the server writes nothing that could be lost, and waiting for open streams would never end."""
        os._exit(0)


def _is_loopback(host: str) -> bool:
    """Say whether a host can be reached from this machine only."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"--host {host}: no such host is known") from None
    both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(place, family=family, backlog=128, dualstack_ipv6=both)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"--port {port}: is taken; choose another, or 0 for one that is free") from None
        raise ConfigError(f"--host {host} --port {port}: {os.strerror(error.errno or 0)}") from None


def serve(listening: Listening, experiments: Experiments, title: str) -> None:
    """Answer requests until a signal ends the process."""
    app = make_app(Server(experiments, title, secrets.token_hex(8)), listening)
    os.nice(NICENESS)
    for watched in experiments.all():
        watched.reading()
    _Uvicorn(make_config(app)).run(sockets=[listening.socket])


def make_app(server: Server, listening: Listening) -> Starlette:
    """Return the web application for a bound socket."""
    # Pages of a foreign name that leads here have no cookie with the token, so a server with a token may have any name.
    names = ["localhost", "127.0.0.1", "[::1]", listening.host] if listening.token is None else ["*"]
    return Starlette(
        routes=server.routes(),
        middleware=[
            Middleware(Guard, token=listening.token),
            Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False),
        ],
        exception_handlers={UserError: lambda _, error: PlainTextResponse(f"{visible(str(error))}\n", 500)},
    )


def make_config(app: Starlette) -> uvicorn.Config:
    """Return the configuration of the server, with its limits on connections."""
    return uvicorn.Config(
        app,
        http=_Connection,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEADER,
        timeout_graceful_shutdown=1,
    )
