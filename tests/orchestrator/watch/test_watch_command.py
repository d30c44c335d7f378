"""``orchestrator watch`` as it is typed: refusals in one sentence, an address that is true, an end without a trace."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.child_process import running
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun
from tests.support.waiting import has_ended, wait_until

pytestmark = pytest.mark.proof

COMMAND = [sys.executable, "-c", "from orchestrator.cli import main; main()"]
BESIDE = """
import sys
from pathlib import Path
from orchestrator.commands.watch import page_beside
with page_beside(Path(sys.argv[1]), "tiny", 0):
    print("searching", flush=True)
    sys.stdin.readline()
print("found", flush=True)
"""


@pytest.fixture
def output(tmp_path: Path) -> Path:
    with begun(tmp_path / "tiny") as ledger:
        add_trial(ledger, [30.0])
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "token", "said"),
    [
        pytest.param(["none"], None, "none: no experiment of that name", id="no such experiment"),
        pytest.param(["--port", "{taken}"], None, "--port {taken}: is taken; choose another, or 0", id="port taken"),
        pytest.param(["--host", "0.0.0.0"], None, "set ORCHESTRATOR_WATCH_TOKEN", id="no token"),
        pytest.param(["--host", "0.0.0.0"], "", "set ORCHESTRATOR_WATCH_TOKEN", id="an empty token"),
        pytest.param(["--host", "0.0.0.0"], "short", "has 5 characters; a token needs at least 16", id="short token"),
        pytest.param(["--host", "no.such.host.invalid"], "t" * 16, "no such host is known", id="no such host"),
        pytest.param(["--host", "192.168..7"], "t" * 16, "no such host is known", id="an address with a part missing"),
        pytest.param(["--host", "203.0.113.7"], "t" * 16, "--host 203.0.113.7 --port 0:", id="a foreign address"),
    ],
)
def test_refusals_are_one_sentence(
    output: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], token: str | None, said: str
) -> None:
    monkeypatch.delenv("ORCHESTRATOR_WATCH_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("ORCHESTRATOR_WATCH_TOKEN", token)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        port = [] if "--port" in arguments else ["--port", "0"]
        filled = [argument.format(taken=taken) for argument in arguments]
        code, out, err = cli.run("watch", "--output", output, *port, *filled)
    assert (code, out, len(err.strip().splitlines())) == (2, "", 1)
    assert said.format(taken=taken) in err


@pytest.fixture
def environment() -> dict[str, str]:
    named = {name: value for name, value in os.environ.items() if name != "ORCHESTRATOR_WATCH_TOKEN"}
    return {**named, "PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_the_address_is_true_and_a_signal_ends_it(output: Path, environment: dict[str, str], number: int) -> None:
    before = sorted(output.rglob("*"))
    command = [*COMMAND, "watch", "tiny", "--output", str(output), "--port", "0"]
    with running(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        address = started.stdout.readline().split()[2]
        assert address.endswith("/e/tiny/")
        with urllib.request.urlopen(address, timeout=60) as page:
            assert "30.0" in page.read().decode()
        listening = [link.laddr.ip for link in psutil.Process(started.pid).net_connections() if link.status == "LISTEN"]
        assert listening == ["127.0.0.1"]
        # A stream that is open must not hold the end up.
        with urllib.request.urlopen(f"{address}events", timeout=60) as stream:
            assert stream.readline() == b"event: news\n"
            started.send_signal(number)
            assert started.wait(60) == 0
    assert sorted(output.rglob("*")) == before


@pytest.fixture
def beside(output: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process with a live page beside it, as a search has one; its second line of errors is the address."""
    command = [sys.executable, "-c", BESIDE, str(output)]
    pipe = subprocess.PIPE
    with running(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as made:
        yield made


def test_a_page_beside_a_search_ends_with_the_search_however_that_ends(beside: subprocess.Popen[str]) -> None:
    assert beside.stdout.readline() == "searching\n"
    address = beside.stderr.readline().removeprefix("live page: ").strip()
    assert address.startswith("http://127.0.0.1:") and address.endswith("/e/tiny/")
    with urllib.request.urlopen(address, timeout=60) as page:
        assert "30.0" in page.read().decode()
    children = psutil.Process(beside.pid).children(recursive=True)
    assert len(children) == 3, "the page, and the two processes of which each ends it"
    beside.kill()
    _, left = psutil.wait_procs(children, timeout=120)
    assert left == []


def test_a_page_that_dies_leaves_the_search_alone(beside: subprocess.Popen[str]) -> None:
    assert beside.stdout.readline() == "searching\n"
    beside.stderr.readline()
    children = psutil.Process(beside.pid).children(recursive=True)
    for child in children:
        child.kill()
    # The search does not wait for its page, so that a page that is dead stays a zombie.
    wait_until(lambda: all(has_ended(child.pid) for child in children))
    # All that could end it has ended: it goes on to its own end.
    assert beside.communicate("go on\n")[0] == "found\n"
    assert beside.returncode == 0
