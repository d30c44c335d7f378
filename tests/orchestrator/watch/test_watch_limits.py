"""Whoever connects and says nothing does not keep others from the live pages, and no page waits for many journals."""

import socket
import threading
from pathlib import Path

import pytest

from orchestrator.watch import experiments, server
from orchestrator.watch.app import Server
from orchestrator.watch.experiments import Experiments
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.live_pages import served

pytestmark = pytest.mark.proof


@pytest.mark.parametrize(
    "part",
    [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"],
    ids=["nothing", "half a header", "half a body"],
)
def test_a_connection_without_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: bytes) -> None:
    with served(tmp_path) as live:
        with monkeypatch.context() as patch:
            patch.setattr(server, "REQUEST_SECONDS", 0.2)
            with socket.create_connection(("127.0.0.1", live.port), timeout=120) as slow:
                slow.sendall(part)
                ended = False
                while not ended:
                    try:
                        ended = slow.recv(4096) == b""
                    except ConnectionResetError:
                        ended = True
        # A connection that asks is not hurried: a busy machine may take longer to send its request.
        assert live.ask("/").status == 200


def test_a_connection_too_many_is_closed_and_room_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 3)
    with served(tmp_path) as live:
        kept = [socket.create_connection(("127.0.0.1", live.port), timeout=120) for _ in range(3)]
        for connection in kept:
            connection.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", live.port), timeout=120) as more:
            more.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if more.recv(15) == b"":
                raise ConnectionResetError
        for connection in kept:
            connection.close()
        answered = False
        while not answered:
            try:
                answered = live.ask("/").status == 200
            except OSError:
                continue


def test_the_start_page_reads_journals_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        with begun(tmp_path / f"search{number}", make_experiment(name=f"search{number}")) as ledger:
            add_trial(ledger, [3.0])
    may_read, watched = threading.Event(), Experiments(tmp_path)
    slow = {one.name for one in watched.all()[3:]}
    read = experiments.Watched._read
    monkeypatch.setattr(
        experiments.Watched, "_read", lambda one: (one.name not in slow or may_read.wait()) and read(one)
    )
    for one in watched.all()[:3]:
        one.reading().result()

    page = Server(watched, "runs", "test")
    shown = page.html(None)
    assert shown.count("its journal is being read") == 5
    assert shown.count(" has the best val rsum of its search") == 3
    before = [one.version() for one in watched.all()]
    may_read.set()
    while "its journal is being read" in (shown := page.html(None)):
        pass
    assert shown.count(" has the best val rsum of its search, 3.0") == 8
    assert all(old != new for old, new in zip(before[3:], (one.version() for one in watched.all()[3:]), strict=True))
