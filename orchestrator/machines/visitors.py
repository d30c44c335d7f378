"""Who may ask a server on the loopback address: a host name of its own for its cookie, and no pages of others.

Browsers send a cookie to all ports of a host (RFC 6265, section 8.5), so that a cookie of 127.0.0.1 also reaches the
servers of other users there. A server with a token therefore gives its cookie to a host name that follows from the
token alone. Names below ``localhost`` lead to the loopback address (RFC 6761, section 6.3).
``Sec-Fetch-*``: W3C, Fetch Metadata Request Headers, https://www.w3.org/TR/fetch-metadata/
"""

import hashlib
from collections.abc import Mapping

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of the loopback address that all servers of a machine share."""


def own_name(token: str) -> str:
    """Return the host name of a server with a token: only who knows the token knows the name.

    Example:
        >>> own_name("t")
        'icr-e3b98a4da31a127d4bde.localhost'
    """
    return f"icr-{hashlib.sha256(token.encode()).hexdigest()[:20]}.localhost"


def own_place(host: str, token: str) -> str | None:
    """Return where a visitor who has shown the token gets the cookie: ``name:port``.

    Args:
        host: The Host header of the request.
        token: The token of the server.

    Returns:
        ``None`` for the place of the request itself, where that is the server's own, or on another machine.
    """
    name = next((name for name in LOOPBACK if host.lower() == name or host.lower().startswith(f"{name}:")), None)
    return None if name is None else own_name(token) + host[len(name) :]


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Say whether a page of another site, or of another port of this machine, sends a request.

    A link on such a page is not foreign: its answer does not reach that page.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    is_link = headers.get("sec-fetch-mode") == "navigate"
    is_of_other = origin is not None and origin.partition("://")[2] != headers.get("host")
    return is_of_other or (site in ("cross-site", "same-site") and not is_link)
