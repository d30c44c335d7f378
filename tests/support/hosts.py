"""Hosts of our own on this machine, which are namespaces; ``tests/deploy/network.py`` joins them.

A host lives as long as its first process, which the kernel ends when the test process dies; network, mounts and
processes go with it, so nothing is left behind however a test ends. No interface outside these namespaces is touched.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import wait_until

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
        host = Host()
    except RuntimeError as error:
        return str(error)
    try:
        host.run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "end")
    except subprocess.CalledProcessError as error:
        return f"no veth pair can be made: {error.stderr.strip()}"
    finally:
        host.kill()
    return None


class Host:
    """A machine as far as its name, network, mounts and processes go."""

    address = ""

    def __init__(self, name: str = "host") -> None:
        self._spaces = ["--net", "--mount", "--pid", "--uts", "--ipc"]
        spaces = ["unshare", *self._spaces, "--fork", "--kill-child", "--mount-proc"]
        command = ["setpriv", "--pdeathsig", "KILL", *spaces, "sleep", "infinity"]
        self._outer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._started: list[subprocess.Popen[str]] = []
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        wait_until(lambda: self._outer.poll() is not None or bool(children.read_text()), "namespaces are made")
        if self._outer.poll() is not None:
            raise RuntimeError(f"no namespaces can be made: {self._outer.communicate()[1].strip()}")
        self.pid = int(children.read_text())
        # Of its namespaces the network is the last that the first process is in.
        here, there = (Path(f"/proc/{process}/ns/net") for process in ("self", self.pid))
        wait_until(lambda: there.readlink() != here.readlink(), "the network is not the machine's")
        self.run("ip", "link", "set", "lo", "up")
        self.run("hostname", name)

    def inside(self, *command: str) -> list[str]:
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
