"""Access control of the live pages, beside Starlette's checks of method and Host header (against DNS rebinding).

Where a token is set, every request needs the token. It comes once in the address, then in a cookie that scripts and
other sites cannot read. ``Sec-Fetch-*``: W3C, Fetch Metadata Request Headers, https://www.w3.org/TR/fetch-metadata/
"""

import hmac
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        is_link = request.headers.get("sec-fetch-mode") == "navigate"
        is_foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
        if is_foreign or (site in ("cross-site", "same-site") and not is_link):
            return PlainTextResponse("refused: a page of another site asks\n", 403)
        if self._token is None:
            return None
        token, cookie = request.query_params.get("token"), f"{COOKIE}_{request.url.port or 80}"
        if self._is_right(token):
            # The browser then shows and remembers an address without the token.
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            response = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(cookie, self._token, httponly=True, samesite="strict", path="/")
            return response
        if self._is_right(request.cookies.get(cookie)):
            return None
        return PlainTextResponse("refused: open the address with ?token=... and the token of this server\n", 401)

    def _is_right(self, token: str | None) -> bool:
        # The comparison takes the same time for every wrong token.
        return hmac.compare_digest((token or "").encode(), (self._token or "").encode())
