"""The proxy of the fault tests: a test of tracking faults is worth what its faults are."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.servers.fault_proxy import PASS, Fault, FaultProxy, Kind

pytestmark = pytest.mark.proof


class Echo(BaseHTTPRequestHandler):
    """A server that says what it was told, and keeps it."""

    told: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.told.append(body)
        answer = json.dumps([self.path, self.headers["X-Name"], body]).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(Echo, "told", [], raising=False)
    return Echo.told


@pytest.fixture
def proxy(told: list[str]) -> Iterator[FaultProxy]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with FaultProxy(f"http://127.0.0.1:{server.server_address[1]}") as made:
            yield made
        server.shutdown()


def post(proxy: FaultProxy, path: str, body: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection(*proxy.server_address[:2], timeout=120)) as connection:
        connection.request("POST", path, body.encode(), {"X-Name": "a name"})
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_requests_and_answers_pass_unchanged(proxy: FaultProxy, told: list[str]) -> None:
    status, answer = post(proxy, "/a?b=1", "käse")
    assert (status, json.loads(answer)) == (201, ["/a?b=1", "a name", "käse"])


@pytest.mark.parametrize(
    ("kind", "carried_out", "answer"),
    [
        pytest.param(Kind.ERROR, False, 500, id="500"),
        pytest.param(Kind.UNAUTHORIZED, False, 401, id="401"),
        pytest.param(Kind.SLOW, True, 201, id="slow"),
        pytest.param(Kind.LOSE, True, None, id="the answer is lost"),
        pytest.param(Kind.REFUSE, False, None, id="refused"),
    ],
)
def test_a_fault_happens_so_often_to_those_it_is_meant_for(
    proxy: FaultProxy, told: list[str], kind: Kind, carried_out: bool, answer: int | None
) -> None:
    proxy.choose(Fault(kind, seconds=0.3, path="/runs", times=2))
    assert post(proxy, "/metrics", "another")[0] == 201
    told.clear()
    for _ in range(2):
        begun = time.monotonic()
        if answer is None:
            with pytest.raises((http.client.HTTPException, OSError)):
                post(proxy, "/runs/create", "one")
        else:
            assert post(proxy, "/runs/create", "one")[0] == answer
        assert time.monotonic() - begun >= (0.3 if kind is Kind.SLOW else 0)
    proxy.wait_until_met(2)
    assert told == (["one", "one"] if carried_out else [])
    assert post(proxy, "/runs/create", "two")[0] == 201


def test_an_answer_is_held_until_the_fault_is_over(proxy: FaultProxy, told: list[str]) -> None:
    proxy.choose(Fault(Kind.HOLD, times=1))
    failed = threading.Event()

    def ask() -> None:
        with pytest.raises(http.client.RemoteDisconnected):
            post(proxy, "/", "one")
        failed.set()

    threading.Thread(target=ask).start()
    proxy.wait_until_met()
    assert told == ["one"]
    assert post(proxy, "/", "two")[0] == 201
    assert not failed.is_set(), "a later request has its answer, and this one has none"
    proxy.choose(PASS)
    assert failed.wait(120)


def test_without_a_server_there_is_no_answer(told: list[str]) -> None:
    with FaultProxy("http://127.0.0.1:9") as proxy, pytest.raises(http.client.RemoteDisconnected):
        post(proxy, "/", "one")
