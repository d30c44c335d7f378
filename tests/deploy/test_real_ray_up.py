"""``ray up`` with ``ray/on-premise.yaml``, a search, ``ray down``, on hosts in namespaces that are reached by SSH."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, filled_in
from tests.deploy.network import Network
from tests.deploy.tiny_search import assert_finished, write_tiny_search
from tests.support.hosts import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

SSHD = "/usr/sbin/sshd"
HOME = "/run/home"
"""Each host's own, because ``/run`` is."""


@pytest.fixture
def shared(short_path: Path) -> Path:
    write_tiny_search(short_path, epochs=3, batch_size=16)
    return short_path


@pytest.fixture
def network(shared: Path) -> Iterator[Network]:
    """An operator's machine, a head and a worker; the last two listen to SSH."""
    if not (Path(SSHD).exists() and shutil.which("rsync")):
        pytest.skip("no sshd or rsync here; on Debian: apt-get install openssh-server rsync")
    users = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    passwd = "\n".join([f"root:x:0:0:root:{HOME}:/bin/bash", *users]) + "\n"
    with Network(shared, ["operator", "node-0", "node-1"], replaced={"/etc/passwd": passwd}) as made:
        for name in made.hosts:
            made.hosts[name].run("bash", "-c", f"mkdir -p {HOME}/.ssh /run/sshd; cp /etc/skel/.[bp]* {HOME}/")
        key = shared / "key"
        for path in (key, shared / "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
        for name in ("node-0", "node-1"):
            serve_ssh(made, name)
        yield made


def serve_ssh(network: Network, name: str) -> None:
    """Let a host be reached by SSH with the key of this test."""
    options = [
        f"HostKey={network.shared}/host_key",
        f"AuthorizedKeysFile={network.shared}/key.pub",
        "StrictModes=no",
        "UsePAM=no",
        "PasswordAuthentication=no",
        "PermitRootLogin=yes",
        "Subsystem=sftp internal-sftp",
    ]
    arguments = [word for option in options for word in ("-o", option)]
    network.hosts[name].start([SSHD, "-D", "-f", "/dev/null", *arguments], os.environ, network.shared / f"{name}.ssh")
    operator, host = network.hosts["operator"], network.hosts[name]
    wait_until(lambda: operator.hears(host.address, 22), f"{name} listens to SSH")


def fill_in(shared: Path) -> Path:
    """Write the file with what its manual says is to be changed."""
    changes = {
        "head_ip: node-0.example": "head_ip: 10.231.9.2",
        "worker_ips: [node-1.example, node-2.example, node-3.example]": "worker_ips: [10.231.9.3]",
        "max_workers: 3": "max_workers: 1",
        "ssh_user: icr": "ssh_user: root",
        "~/.ssh/id_ed25519": str(shared / "key"),
        "/opt/icr": str(shared / "home"),
    }
    (shared / "on-premise.yaml").write_text(filled_in(DEPLOY / "ray" / "on-premise.yaml", changes))
    return shared / "on-premise.yaml"


def ray(network: Network, *arguments: str) -> str:
    """Run Ray's command line on the operator's machine as the runbook says it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHONPATH"))}
    environment = {**kept, "HOME": HOME, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
    command = network.hosts["operator"].inside(f"{sys.prefix}/bin/ray", *arguments)
    done = subprocess.run(
        command, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.STDOUT, timeout=600
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_the_file_starts_a_cluster_that_searches_and_ends(network: Network, shared: Path) -> None:
    file = str(fill_in(shared))
    ray(network, "get-auth-token", "--generate")
    ray(network, "up", "--yes", "--no-config-cache", file)
    wait_until(lambda: "raylet" in network.processes("node-1"), "the worker has joined")
    places = f"--data-root {shared}/data --storage {shared}/searches --output {shared}/runs"
    code = f"PYTHONPATH={ROOT} orchestrator search {shared}/tiny.yaml --address auto {places}"
    said = ray(network, "exec", file, f". ~/.icr-profile; {code}")
    assert_finished(shared / "runs", said[-3000:])
    ended = ray(network, "down", "--yes", file)
    for name in ("node-0", "node-1"):
        wait_until(lambda name=name: "raylet" not in network.processes(name), f"Ray has ended on {name}: {ended}")  # type: ignore[misc]
