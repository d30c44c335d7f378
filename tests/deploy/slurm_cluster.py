"""A Slurm cluster of hosts in namespaces of this machine: a controller and nodes, with Debian's Slurm and munge."""

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.hosts import ROOT, Host, missing

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
NODES = ("n1", "n2")
ADDRESSES = {"ctl": "10.231.9.1", "n1": "10.231.9.2", "n2": "10.231.9.3"}

CONFIGURATION = """
ClusterName=icr
SlurmctldHost=ctl(10.231.9.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
ReturnToService=2
StateSaveLocation=/run/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
NodeName=n1 NodeAddr=10.231.9.2 CPUs=2 RealMemory=9000
NodeName=n2 NodeAddr=10.231.9.3 CPUs=2 RealMemory=9000
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def absent() -> str | None:
    """Say why there can be no Slurm cluster here; ``None`` where there can."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if lacking:
        return f"no {', '.join(lacking)} here; on Debian: apt-get install slurm-wlm munge"
    return missing()


class SlurmCluster:
    """A controller and two nodes.

    Attributes:
        hosts: By name.
        shared: A folder that all hosts have under the same path.
    """

    def __init__(self, shared: Path) -> None:
        self.shared = shared
        self.hosts = {name: Host(name) for name in ("ctl", *NODES)}
        key = shared / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self._lay_cables()
        for name in self.hosts:
            self._furnish(name)
        for name, host in self.hosts.items():
            self._start(name, host)

    def _lay_cables(self) -> None:
        controller = self.hosts["ctl"]
        controller.run("ip", "link", "add", "bridge", "type", "bridge")
        controller.run("ip", "link", "set", "bridge", "up")
        for name in NODES:
            # In this machine's process namespace, where the number of the controller's first process means something.
            cable = ["ip", "link", "add", "cable", "type", "veth", "peer", "name", name, "netns", str(controller.pid)]
            enter = ["nsenter", "--target", str(self.hosts[name].pid), "--net"]
            subprocess.run([*enter, *cable], check=True, capture_output=True, text=True)
            controller.run("ip", "link", "set", name, "master", "bridge", "up")
        for name, host in self.hosts.items():
            device = "bridge" if name == "ctl" else "cable"
            host.run("ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", device)
            host.run("ip", "link", "set", device, "up")

    def _furnish(self, name: str) -> None:
        """Give a host folders of its own, and the names of the others; its own name is 127.0.1.1, as on Debian."""
        others = [f"{address} {other}" for other, address in ADDRESSES.items() if other != name]
        names = self.shared / f"hosts.{name}"
        names.write_text("\n".join(["127.0.0.1 localhost", f"127.0.1.1 {name}", *others]) + "\n")
        folders = [self.shared, *([ROOT] if ROOT.is_relative_to("/tmp") else [])]
        lines = ["set -e", "mkdir -p /etc/slurm", f"mount --bind {names} /etc/hosts"]
        lines += [f"mkdir -p /run/kept/{n}; mount --bind {folder} /run/kept/{n}" for n, folder in enumerate(folders)]
        lines = [*lines[:2], "mount -t tmpfs tmpfs /run", *lines[2:], "mount -t tmpfs tmpfs /tmp", "chmod 1777 /tmp"]
        lines += [f"mkdir -p {folder}; mount --bind /run/kept/{n} {folder}" for n, folder in enumerate(folders)]
        lines += ["mount -t tmpfs tmpfs /dev/shm", "mount -t tmpfs tmpfs /etc/slurm", "mkdir -p /run/munge /run/slurmd"]
        lines += [f"cat > /etc/slurm/slurm.conf <<'END'{CONFIGURATION}END"]
        self.hosts[name].run("bash", "-c", "\n".join(lines))

    def _start(self, name: str, host: Host) -> None:
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        log = self.shared / f"{name}.log"
        munged = ["munged", "--force", "--foreground", f"--key-file={self.shared / 'munge.key'}"]
        places = ["--log-file=/run/munge/log", "--seed-file=/run/munge/seed", "--pid-file=/run/munge/pid"]
        host.start([*munged, *places], environment, log)
        wait_until(lambda: "STATUS" in (self.try_run(name, "bash", "-c", "munge -n | unmunge") or ""), "munge answers")
        daemon = ["slurmctld", "-D"] if name == "ctl" else ["slurmd", "-D", "-N", name]
        host.start(daemon, environment, log)

    def try_run(self, name: str, *command: str) -> str | None:
        """Run a command on a host; ``None`` where the command fails."""
        try:
            return self.hosts[name].run(*command)
        except subprocess.CalledProcessError:
            return None

    def submit(self, *arguments: str) -> str:
        """Submit a job from the controller and return its number."""
        return self.hosts["ctl"].run("sbatch", "--parsable", *arguments).strip()

    def show(self, job: str) -> dict[str, str]:
        """Return what Slurm says of a job, by Slurm's names."""
        words = (self.try_run("ctl", "scontrol", "--oneliner", "show", "job", job) or "").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def kill(self) -> None:
        """End all hosts and everything on them."""
        for host in self.hosts.values():
            host.kill()


@contextmanager
def slurm_cluster(shared: Path) -> Iterator[SlurmCluster]:
    """Yield a cluster whose nodes are idle, for the length of a ``with`` block."""
    cluster = SlurmCluster(shared)
    try:
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        wait_until(lambda: (cluster.try_run("ctl", *idle) or "").strip() == str(len(NODES)), "the nodes are idle")
        yield cluster
    finally:
        cluster.kill()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.2)
