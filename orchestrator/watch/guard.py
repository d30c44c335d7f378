"""Access control of the live pages: every request is checked here before a page is made.

- The Host header of a request must name this server. Otherwise the pages of a foreign domain name that resolves to this
  server (DNS rebinding) could read the live pages.
- A request from a page of another site is refused, unless a person clicked on a link.
- Only reading is possible.
- Where a token is set, a request without the token is refused. The token comes once in the address, then in a cookie
  that scripts and other sites cannot read.

References:
    [Fetch] W3C, Fetch Metadata Request Headers, https://www.w3.org/TR/fetch-metadata/
"""

import hmac
import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "orchestrator_watch"
"""Start of the name of the cookie that holds the token; the server's port follows, because cookies ignore ports."""

READING = ("GET", "HEAD")
"""The HTTP methods that the server answers."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Headers of every response that does not set these headers itself."""


@dataclass(frozen=True)
class Rules:
    """The conditions that a request must meet.

    Attributes:
        hosts: Names of the server in lower case, without ports.
        numbers: Whether any IP address is accepted as a name of the server: no DNS server resolves an IP address.
        token: Token that every request must have; ``None`` where no token is needed.
    """

    hosts: frozenset[str]
    numbers: bool
    token: str | None = None

    @classmethod
    def of(cls, host: str, token: str | None) -> "Rules":
        """Return the rules of a server that is bound to a host."""
        names = {"localhost", "127.0.0.1", "::1", host.lower()}
        if is_loopback(host):
            return cls(frozenset(names), False, token)
        return cls(frozenset(names | {socket.gethostname().lower(), socket.getfqdn().lower()}), True, token)

    def refusal(self, request: Request) -> str | None:
        """Return why a request is refused with any token; ``None`` for a request that is not refused."""
        if request.method not in READING:
            return "only reading is possible"
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            return "the Host header does not name this server"
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "the Origin header names another site"
        site = request.headers.get("sec-fetch-site", "none")
        if site in ("cross-site", "same-site") and request.headers.get("sec-fetch-mode") != "navigate":
            return "a page of another site asks"
        return None

    def knows(self, given: str | None) -> bool:
        """Say whether a token is right; the comparison takes the same time for every wrong token."""
        return self.token is None or hmac.compare_digest((given or "").encode(), self.token.encode())

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (name in self.hosts or (self.numbers and is_number(name)))


class Guard:
    """Refuses requests that break the rules, and adds ``HEADERS`` to every response."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass the request on to the application."""
        if scope["type"] != "http":
            # ``lifespan`` is the start and end of the server itself; web sockets are refused, as no page uses them.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope))
        await (self._app if answer is None else answer)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """Return the response to a request that is not passed on; ``None`` for a request that is passed on."""
        refusal = self._rules.refusal(request)
        if refusal is not None:
            status = 405 if request.method not in READING else 403
            return PlainTextResponse(f"refused: {refusal}\n", status)
        if self._rules.token is None:
            return None
        cookie = f"{COOKIE}_{request.url.port or 80}"
        given = request.query_params.get("token")
        if given is not None and self._rules.knows(given):
            # The browser then shows and remembers an address without the token.
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            response = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(cookie, given, httponly=True, samesite="strict", path="/")
            return response
        if self._rules.knows(request.cookies.get(cookie)):
            return None
        return PlainTextResponse("refused: open the address with ?token=... and the token of this server\n", 401)


def is_loopback(host: str) -> bool:
    """Say whether a host can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    return is_number(host) and ipaddress.ip_address(host).is_loopback


def is_number(host: str) -> bool:
    """Say whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
