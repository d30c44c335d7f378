"""``orchestrator ui``: pages on the loopback address, and nothing left when it is told to end."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import URLError

import psutil
import pytest

from orchestrator.machines.visitors import own_name
from tests.support.bucket import free_port
from tests.support.child_process import running

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_pages_are_served_and_the_server_goes_with_the_command(output: Path, number: int) -> None:
    port = free_port()
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", "ui"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    arguments = ["--output", str(output), "--port", str(port)]
    with running([*command, *arguments], env=environment, stdout=subprocess.PIPE, text=True) as started:
        assert str(output / "mlflow.db") in started.stdout.readline()
        opens = started.stdout.readline().split()[1]
        token = opens.partition("token=")[2].partition("#")[0]
        own = f"{own_name(token)}:{port}"
        assert opens.startswith(f"http://{own}/?token=")
        fetch(f"http://127.0.0.1:{port}/health", started)
        page = fetch(f"http://127.0.0.1:{port}/", started, token)
        assert "MLflow" in page and page.index("[data-assistant-ui] { display: none") < page.index("main.")
        children = psutil.Process(started.pid).children(recursive=True)
        listening = {link.laddr.ip for child in children for link in child.net_connections() if link.status == "LISTEN"}
        assert listening == {"127.0.0.1"}
        assert str(output / "mlflow.db") not in str([child.cmdline() for child in children]), "it may hold a password"
        assert token not in str([child.cmdline() for child in children])
        search = f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/search?max_results=5"
        assert '"name": "empty"' in fetch(search, started, token), "the store is the one that was named"
        at_own = {"Host": own, "Origin": f"http://{own}", "Content-Type": "application/json"}
        assert answer_of(port, token, "POST", CREATE, at_own) == 200, "the pages write"
        assert answer_of(port, token, "GET", "/", {"Host": own}) == 200
        assert [answer_of(port, token, *request) for request in FOREIGN] == [403] * len(FOREIGN)
        assert [answer_of(port, None, *request) for request in ATTACK] == [401] * len(ATTACK)
        assert [answer_of(port, token, *request) for request in ATTACK] == [404] * len(ATTACK)
        end(started, number)


def end(started: subprocess.Popen[str], number: int) -> None:
    """Send a signal to the command: it ends, and its server with it."""
    children = psutil.Process(started.pid).children(recursive=True)
    started.send_signal(number)
    assert started.wait(60) == (-9 if number == signal.SIGKILL else 0)
    _, alive = psutil.wait_procs(children, timeout=120)
    assert children and alive == []


CREATE = "/api/2.0/mlflow/experiments/create"

FOREIGN: list[tuple[str, str, dict[str, str]]] = [
    # A page of a stranger whose name was made to point at this machine.
    ("GET", "/", {"Host": "evil.example"}),
    ("GET", "/ajax-api/2.0/mlflow/experiments/search?max_results=5", {"Host": "evil.example:5000"}),
    # A page of a stranger that lets the browser of this machine's user write.
    ("POST", CREATE, {"Origin": "http://evil.example", "Content-Type": "application/json"}),
    ("POST", CREATE, {"Origin": "http://localhost:1", "Content-Type": "application/json"}),
    ("GET", "/", {"Origin": "http://127.0.0.1:1"}),
    ("POST", CREATE, {"Origin": "null", "Content-Type": "application/json"}),
]
"""Requests that only a browser on the page of somebody else sends."""


ASSISTANT = "/ajax-api/3.0/mlflow/assistant"

ATTACK: list[tuple[str, str, dict[str, str]]] = [
    ("PUT", f"{ASSISTANT}/config", {"Content-Type": "application/json"}),
    ("POST", f"{ASSISTANT}/message", {"Content-Type": "application/json"}),
    ("GET", f"{ASSISTANT}/sessions/1/stream", {}),
]
"""Requests with which another user of the machine made MLflow's assistant run a shell as whoever serves it."""


def answer_of(port: int, token: str | None, method: str, path: str, headers: dict[str, str]) -> int:
    """Return the status with which the pages answer a request."""
    headers = headers if token is None else {**headers, "Authorization": f"Bearer {token}"}
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body='{"name": "theirs"}' if method != "GET" else None, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def fetch(url: str, started: subprocess.Popen[str], token: str = "") -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return str(answer.read(), "utf-8")
        except (URLError, ConnectionError, TimeoutError):
            assert started.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.3)
