"""Hosts of our own on this machine: each a network, mount and process namespace, joined by a cable (a veth pair).

A host lives as long as its first process, which the kernel ends when the test process dies; network, mounts and
processes go with it, so nothing is left behind however a test ends. No interface outside these namespaces is touched.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest

ROOT = Path(__file__).parent.parent.parent

HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}
"""Environment of ``ray start --head`` for a head that gives a silent node up after 15 s instead of some 65 s."""

TOOLS = ("ip", "unshare", "nsenter", "setpriv")


def missing() -> str | None:
    """Say why there can be no hosts here; ``None`` where there can."""
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"no {', '.join(absent)} here"
    try:
        with_cable = Host(), Host()
    except RuntimeError as error:
        return str(error)
    try:
        connect(*with_cable)
    except subprocess.CalledProcessError as error:
        return f"no veth pair can be made: {error.stderr.strip()}"
    finally:
        for host in with_cable:
            host.kill()
    return None


class Host:
    """A machine as far as network, mounts and processes go; with a name, also as far as that goes."""

    address = ""

    def __init__(self, name: str = "") -> None:
        self._spaces = ["--net", "--mount", "--pid", *(["--uts", "--ipc"] if name else [])]
        spaces = ["unshare", *self._spaces, "--fork", "--kill-child", "--mount-proc"]
        command = ["setpriv", "--pdeathsig", "KILL", *spaces, "sleep", "infinity"]
        self._outer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._started: list[subprocess.Popen[str]] = []
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        deadline = time.monotonic() + 300
        while not (found := children.read_text().split() if children.exists() else []):
            if self._outer.poll() is not None or time.monotonic() > deadline:
                self._outer.kill()
                raise RuntimeError(f"no namespaces can be made: {self._outer.communicate()[1].strip()}")
            time.sleep(0.02)
        self.pid = int(found[0])
        self._wait_until_apart(deadline)
        self.run("ip", "link", "set", "lo", "up")
        if name:
            self.run("hostname", name)

    def _wait_until_apart(self, deadline: float) -> None:
        """Wait until the first process is in its own namespaces, of which the network is the last to be seen."""
        while Path(f"/proc/{self.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            if time.monotonic() > deadline:
                raise RuntimeError("no namespaces can be made: the network is still the machine's")
            time.sleep(0.02)

    def inside(self, *command: str) -> list[str]:
        """Return what runs a command on this host."""
        return ["nsenter", "--target", str(self.pid), *self._spaces, *command]

    def run(self, *command: str) -> str:
        """Run a command on this host to its end, and return what it prints."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(self.inside(*command), check=True, capture_output=True, text=True, env=environment)
        return done.stdout

    def hears(self, address: str, port: int) -> bool:
        """Say whether something listens there, as this host sees it."""
        try:
            self.run("bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
        except subprocess.CalledProcessError:
            return False
        return True

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[str]:
        """Start a command that ends with this host at the latest."""
        with log.open("a") as output:
            started = subprocess.Popen(
                self.inside(*command), env=dict(environment), stdout=output, stderr=output, text=True
            )
        self._started.append(started)
        return started

    def kill(self) -> None:
        """End all of its processes at once, without a word to anybody."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        for process in (self._outer, *self._started):
            process.wait(60)
        if self._outer.stderr is not None:
            self._outer.stderr.close()


def connect(first: Host, second: Host) -> None:
    """Lay a cable between two hosts."""
    # In the process namespace of this machine, where the number of the other host's first process means something.
    cable = ["ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(second.pid)]
    subprocess.run(["nsenter", "--target", str(first.pid), "--net", *cable], check=True, capture_output=True, text=True)
    for host, address in ((first, "10.231.7.1"), (second, "10.231.7.2")):
        host.run("ip", "address", "add", f"{address}/24", "dev", "cable")
        host.run("ip", "link", "set", "cable", "up")
        host.address = address


def network_of(host: Host) -> BinaryIO:
    """Open the network of a host: it lasts at least as long as this file is open."""
    return Path(f"/proc/{host.pid}/ns/net").open("rb")


@contextmanager
def two_hosts(first: str = "", second: str = "") -> Iterator[tuple[Host, Host]]:
    """Make two connected hosts, which end with the ``with`` block; skip the test where hosts cannot be made."""
    if reason := missing():
        pytest.skip(f"two hosts need namespaces: {reason}")
    made = Host(first), Host(second)
    try:
        connect(*made)
        # A network ends with its last process or socket. It takes its end of the cable away, and with that the other
        # end and its address. An open file keeps the network of a host that is killed, until the ``with`` block ends.
        with network_of(made[0]), network_of(made[1]):
            yield made
    finally:
        for host in made:
            host.kill()


def cut(host: Host) -> None:
    """Pull the cable: nothing comes through any more, not even that a connection has ended."""
    host.run("ip", "link", "set", "cable", "down")


def ray_command(*options: str) -> list[str]:
    """Return what starts a node of a Ray cluster with one CPU, which stays in the foreground."""
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", "--disable-usage-stats"]
    return [*start, "--num-gpus=0", f"--object-store-memory={100 * 2**20}", *options]


def ray_environment(home: Path, token: str) -> dict[str, str]:
    """Return the environment of a node: nothing of the caller's Ray, a home and a token of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHONPATH", "AWS_"))}
    own = {"HOME": str(home), "TMPDIR": str(home), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    # On a machine that others keep busy, a node takes longer than the 30 s for which Ray waits by itself.
    own["RAY_raylet_start_wait_time_s"] = "240"
    return {**kept, **own, **HEALTH_CHECKS, "PYTHONDONTWRITEBYTECODE": "1"}


def wait_until(condition: Callable[[], bool], what: str, log: Path, seconds: float = 240) -> float:
    """Wait for something and return how long it took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"{what}: not within {seconds:g} s\n{log.read_text()[-4000:] if log.exists() else ''}")
        time.sleep(0.05)
    return time.monotonic() - started
