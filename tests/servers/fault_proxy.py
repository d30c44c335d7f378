"""An HTTP proxy of ours between a client and a server, whose faults can be switched while both run."""

import http.client
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HOST = "127.0.0.1"
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "upgrade")


class Kind(StrEnum):
    """What happens to a request."""

    PASS = "it is answered by the server"
    ERROR = "it is answered with 500, and does not reach the server"
    UNAUTHORIZED = "the same with 401"
    SLOW = "it reaches the server after some seconds, also if the client has given up"
    LOSE = "the server carries it out, but the connection is cut before its answer comes"
    HOLD = "the server carries it out, but its answer does not come before another fault is chosen"
    REFUSE = "the connection is cut at once"


@dataclass(frozen=True)
class Fault:
    """What happens to the next requests with a part of a path, at most ``times``; ``SLOW`` takes ``seconds``."""

    kind: Kind
    seconds: float = 0.0
    path: str = ""
    times: int = 1_000_000


PASS = Fault(Kind.PASS)


class FaultProxy(ThreadingHTTPServer):
    """The proxy, which runs for the length of a ``with`` block.

    ``met`` counts the requests that met the present fault, once the server has carried them out.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        """Listen on a free port; ``upstream`` is the address of the server, which need not run yet."""
        super().__init__((HOST, 0), _Handler)
        parts = urlsplit(upstream)
        self.upstream = (str(parts.hostname), int(parts.port or 80))
        self.uri = f"http://{HOST}:{self.server_address[1]}"
        self.met = self._taken = self._under_way = 0
        self._fault = PASS
        self._changed = threading.Condition()

    def __enter__(self) -> "FaultProxy":
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.choose(PASS)
        self.shutdown()
        self.server_close()

    def choose(self, fault: Fault) -> None:
        """Let a fault happen from now on, instead of the present one; answers that are held are lost."""
        with self._changed:
            self._fault, self.met, self._taken = fault, 0, 0
            self._changed.notify_all()

    def take(self, path: str) -> Fault:
        with self._changed:
            if self._fault.path not in path or self._taken >= self._fault.times:
                return PASS
            self._taken += 1
            return self._fault

    def count(self, fault: Fault) -> None:
        """Let those who wait know that a request has met a fault."""
        with self._changed:
            self.met += self._fault is fault
            self._changed.notify_all()

    def wait_until_met(self, times: int = 1, seconds: float = 120) -> None:
        """Wait until so many requests have met the present fault."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.met >= times, seconds), f"only {self.met} met {self._fault}"

    def add_under_way(self, number: int) -> None:
        """Count a request that is passed to the server (1), or whose answer has come or is lost (-1)."""
        with self._changed:
            self._under_way += number
            self._changed.notify_all()

    def wait_until_idle(self, seconds: float = 120) -> None:
        """Wait until no request is under way, not even one that its client has given up."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._under_way == 0, seconds), f"{self._under_way} are under way"

    def wait_while(self, fault: Fault) -> None:
        """Wait until another fault is chosen."""
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not fault)


class _Handler(BaseHTTPRequestHandler):
    """One request; HTTP/1.0, so that each has a connection of its own that can be cut."""

    server: FaultProxy

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding"):
            self.send_error(411)
            return
        fault = self.server.take(self.path)
        if fault.kind not in (Kind.LOSE, Kind.HOLD):
            self.server.count(fault)
        if fault.kind in (Kind.ERROR, Kind.UNAUTHORIZED):
            self.send_error(500 if fault.kind is Kind.ERROR else 401)
        elif fault.kind is not Kind.REFUSE:
            self.server.add_under_way(1)
            try:
                self._pass(fault, body)
            finally:
                self.server.add_under_way(-1)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _handle  # noqa: N815

    def _pass(self, fault: Fault, body: bytes) -> None:
        if fault.kind is Kind.SLOW:
            time.sleep(fault.seconds)
        try:
            status, headers, content = self._ask(body)
        except OSError:
            # The server is down: so is this.
            return
        if fault.kind in (Kind.LOSE, Kind.HOLD):
            self.server.count(fault)
            if fault.kind is Kind.HOLD:
                self.server.wait_while(fault)
            return
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        with closing(http.client.HTTPConnection(*self.server.upstream, timeout=300)) as connection:
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def handle(self) -> None:
        # The client may hang up at any moment.
        with suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass
