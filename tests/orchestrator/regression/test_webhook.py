"""The webhook: delivered once, tried again, and never fatal."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from orchestrator.regression.webhook import VARIABLE, notify


@contextmanager
def receiver(statuses: list[int]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve answers with these statuses, one a request; yield the address and what came."""
    came: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses[min(len(came), len(statuses)) - 1])
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


@pytest.mark.parametrize("statuses", [[200], [500, 200], [500, 503, 200]], ids=str)
def test_it_is_delivered_in_three_attempts(monkeypatch: pytest.MonkeyPatch, statuses: list[int]) -> None:
    with receiver(statuses) as (url, came):
        monkeypatch.setenv(VARIABLE, url)
        assert notify("quick: regression", {"finding": "regression"}, pause=0.01) is None
    assert came == [{"text": "quick: regression", "result": {"finding": "regression"}}] * len(statuses)


def test_a_receiver_that_is_down_is_said_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver([500]) as (url, came):
        monkeypatch.setenv(VARIABLE, url)
        problem = notify("text", {}, pause=0.01)
    assert len(came) == 3
    assert problem is not None and "not delivered in 3 attempts" in problem and "secret" not in problem


@pytest.mark.parametrize(("url", "problem"), [("", None), ("file:///etc/passwd", "must begin with https")])
def test_no_address_or_a_wrong_one(monkeypatch: pytest.MonkeyPatch, url: str, problem: str | None) -> None:
    monkeypatch.setenv(VARIABLE, url)
    found = notify("text", {})
    assert found is None if problem is None else problem in str(found)
