"""A server of live pages in a thread of the test, and a client that says exactly what a test wants it to say."""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from orchestrator.watch import app as pages
from orchestrator.watch import server as limits
from orchestrator.watch.experiments import Experiments
from orchestrator.watch.server import Listening, make_app, make_config


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Served:
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Send a request; ``header_name="..."`` sets a header, ``host=""`` sends none of the kind."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.putrequest(method, path, skip_host="host" in named)
            for name, value in named.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read().decode())
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Yield the events of a stream as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.headers["content-type"].startswith("text/event-stream")

        def read() -> Iterator[tuple[str, Any]]:
            name = ""
            while line := response.readline().decode():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ").strip()
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

        try:
            yield read()
        finally:
            connection.close()


@contextmanager
def served(
    output: Path, *named: Path, token: str | None = None, expected: str | None = None, port: int = 0
) -> Iterator[Served]:
    """Serve an output folder for the length of a ``with`` block; the server waits however long a machine takes."""
    listening = Listening("127.0.0.1", port, token)
    experiments = Experiments(output, named)
    if expected is not None:
        experiments.expect(expected)
    app = make_app(pages.Server(experiments, "watched", "test"), listening)
    server = uvicorn.Server(make_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.socket]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PATIENCE", 600.0)
        patch.setattr(limits, "REQUEST_SECONDS", 600.0)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Served(listening.socket.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
