"""The webhook: delivered once, tried again, and never fatal."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from orchestrator.regression.notices import VARIABLE, notify


@contextmanager
def receiver(statuses: list[int], location: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve answers with these statuses, one a request; yield the address and what came."""
    came: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses[min(len(came), len(statuses)) - 1])
            self.send_header("Location", location)
            self.end_headers()

        def do_GET(self) -> None:
            came.append({"method": "GET"})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/secret", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("statuses", "attempts", "problem"),
    [
        ([200], 1, None),
        ([500, 200], 2, None),
        ([500, 503, 200], 3, None),
        ([500], 3, "not delivered in 3 attempts"),
        *(([status], 1, "not delivered: the address redirects") for status in (301, 302, 303, 307, 308)),
    ],
    ids=str,
)
def test_it_is_delivered_in_three_attempts_and_follows_no_redirect(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int], attempts: int, problem: str | None
) -> None:
    """urllib would turn the POST into a GET without the body, and take its answer for a delivery."""
    with receiver([200]) as (target, reached), receiver(statuses, location=target) as (url, came):
        monkeypatch.setenv(VARIABLE, url)
        found = notify("quick: regression", {"finding": "regression"}, pause=0.01)
    assert came == [{"text": "quick: regression", "result": {"finding": "regression"}}] * attempts and reached == []
    assert found is None if problem is None else problem in str(found)
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("", None, id="none is set"),
        pytest.param("file:///etc/passwd", "must begin with https", id="a file"),
        pytest.param("hooks.example.org/secret", "must begin with https", id="no scheme"),
        pytest.param("http:///secret", "must name a host", id="no host"),
        pytest.param("http://:8000/secret", "must name a host", id="a port alone"),
        pytest.param("http://[::1/secret", "host or port cannot be read", id="half an IPv6 address"),
        pytest.param("http://host:99999/secret", "host or port cannot be read", id="a port out of range"),
        pytest.param("http://host:port/secret", "host or port cannot be read", id="a port in letters"),
        pytest.param("http://host/sec ret", "ASCII without spaces", id="a space"),
        pytest.param("http://host/secret\n", "ASCII without spaces", id="a line feed, as from a file"),
        pytest.param("http://host/secr\u00e9t", "ASCII without spaces", id="not ASCII"),
    ],
)
def test_no_address_or_a_malformed_one_is_said_without_it(
    monkeypatch: pytest.MonkeyPatch, url: str, problem: str | None
) -> None:
    monkeypatch.setenv(VARIABLE, url)
    found = notify("text", {}, pause=0.01)
    assert found is None if problem is None else problem in str(found)
    assert "sec" not in str(found)
