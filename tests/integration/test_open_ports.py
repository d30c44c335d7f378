"""The ports that a search opens are those of deploy/README.md, and no other user gets in through one of them."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.searches import tiny
from tests.integration.search_process import command, history
from tests.support.child_process import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

README = Path("deploy/README.md")
SECRET = "c4n4ry"
SERVICES = {
    "driver": "CoreWorkerService/PushTask",
    "gcs_server": "InternalKVGcsService/InternalKVPut",
    "raylet": "NodeManagerService/RequestWorkerLease ObjectManagerService/Push",
    "worker": "CoreWorkerService/PushTask",
    "agent": "/get_or_create_runtime_env",
}
"""Process -> calls that would run code or change memory there; each is served at one of its ports."""
UNIMPLEMENTED, UNAUTHENTICATED, UNAUTHORIZED = "12", "16", "401"
"""Two of gRPC's statuses, and one of HTTP's."""

Port = tuple[str, str, int]
"""Name of the process, address and number."""


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """A folder with a path as long as macOS has for TMPDIR."""
    with tempfile.TemporaryDirectory(prefix="a-folder-with-a-path-as-long-as-macos-has-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def search(base: Path) -> Iterator[psutil.Process]:
    """A search under a careless umask, whose first trial waits after its third epoch."""
    (base / "hold").touch()
    (base / "home").mkdir()
    # A setting for a cluster, and the token of one, do not count here.
    own = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET}
    environment = {**os.environ, **own, "HOME": str(base / "home"), "TMPDIR": str(base)}
    started = command(base / "runs", tiny(), 0.0)
    with running(started, env=environment, umask=0) as process:
        driver = psutil.Process(process.pid)
        wait_until(lambda: process.poll() is not None or any(one.epochs for one in history(base).trials.values()))
        yield driver
        family = driver.children(recursive=True)
        for one in (driver, *family):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(family, timeout=60)


def open_ports(driver: psutil.Process) -> list[Port]:
    """Return where the driver and the processes below it listen."""
    found = []
    for process in (driver, *driver.children(recursive=True)):
        try:
            name = "driver" if process == driver else process.name()
            name = {"ray::RuntimeEn": "agent", "ray::RuntimeEnvAgent": "agent"}.get(name, name)
            name = "worker" if name.startswith("ray::") else name
            listening = [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
            found += [(name, one.laddr.ip, one.laddr.port) for one in listening]
        except psutil.Error:
            continue
    return found


def documented() -> dict[str, tuple[str, int]]:
    """Return process -> address and number of ports, as the table of Ray's ports says."""
    rows = re.findall(r"^\| `?(\w+)`?, of a search \| ([^|]+) \| (\d)", README.read_text(), re.MULTILINE)
    return {name: (address.strip(), int(ports)) for name, address, ports in rows}


def test_the_ports_of_a_search_are_the_documented_ones(search: psutil.Process) -> None:
    names = {"::": "all addresses", "0.0.0.0": "all addresses", "127.0.0.1": "127.0.0.1"}
    found = open_ports(search)
    counted = Counter((name, names.get(address, "the machine's own address")) for name, address, _ in found)
    workers = {process.pid for process in search.children(recursive=True) if process.name().startswith("ray::")}
    assert {name: (address, ports) for (name, address), ports in counted.items() if name != "worker"} == {
        name: place for name, place in documented().items() if name != "worker"
    }
    # Each worker has one; the agent is named like a worker.
    assert counted["worker", "all addresses"] <= len(workers)
    assert documented()["worker"] == ("all addresses", 1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_gets_in_nowhere(search: psutil.Process, base: Path) -> None:
    assert not (base / "home" / ".ray").exists(), "a token for all that come later"
    calls = [
        (name, "127.0.0.1" if address == "::" else address, port, method)
        for name, address, port in open_ports(search)
        for method in SERVICES[name].split()
    ]
    answers = zip(calls, as_nobody([call[1:] for call in calls]), strict=True)
    refused, others = set(), set()
    for (name, _, _, method), answer in answers:
        (refused if answer in (UNAUTHENTICATED, UNAUTHORIZED) else others).add((name, method))
        assert answer in (UNAUTHENTICATED, UNAUTHORIZED, UNIMPLEMENTED), (name, method)
    assert refused == {(name, method) for name, methods in SERVICES.items() for method in methods.split()}
    assert {name for name, _ in others} <= {"raylet"}, "it serves two interfaces at two ports"


def test_no_file_of_a_running_search_is_open_to_others_or_has_a_secret(search: psutil.Process, base: Path) -> None:
    scratch = Path(json.loads((base / "runs" / "tiny" / "lock").read_text())["scratch"])
    for private in (scratch, base / "runs" / "tiny"):
        assert private.stat().st_mode & 0o077 == 0
    logs = [path for path in scratch.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.name == "runtime_env_agent.log" for path in logs)
    (raylet,) = (process for process in search.children() if process.name() == "raylet")
    token = raylet.environ()["RAY_AUTH_TOKEN"]
    assert len(token) == 64
    holding = [path for path in logs for secret in (SECRET, token) if secret.encode() in path.read_bytes()]
    assert holding == []
    assert not any(token in argument for one in search.children(recursive=True) for argument in one.cmdline())


def as_nobody(calls: list[tuple[str, int, str]]) -> list[str]:
    """Return what a process of another user is answered to calls of methods at addresses and ports."""
    line = [sys.executable, "-m", "tests.support.as_nobody", json.dumps(calls)]
    return list(json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout))
