"""A Slurm cluster of hosts in namespaces of this machine: a controller and nodes, with Debian's Slurm and munge."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.network import Network
from tests.support.hosts import Host
from tests.support.waiting import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
NODES = ("n1", "n2")

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


class SlurmCluster(Network):
    def __init__(self, shared: Path) -> None:
        super().__init__(shared, ("ctl", *NODES), empty=["/etc/slurm"])
        key = shared / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        configure = f"mkdir -p /run/munge /run/slurmd; cat > /etc/slurm/slurm.conf <<'END'{CONFIGURATION}END"
        for name, host in self.hosts.items():
            host.run("bash", "-c", configure)
            self._start(name, host)

    def _start(self, name: str, host: Host) -> None:
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        log = self.shared / f"{name}.log"
        munged = ["munged", "--force", "--foreground", f"--key-file={self.shared / 'munge.key'}"]
        places = ["--log-file=/run/munge/log", "--seed-file=/run/munge/seed", "--pid-file=/run/munge/pid"]
        host.start([*munged, *places], environment, log)
        wait_until(lambda: "STATUS" in (self.try_run(name, "bash", "-c", "munge -n | unmunge") or ""), "munge answers")
        daemon = ["slurmctld", "-D"] if name == "ctl" else ["slurmd", "-D", "-N", name]
        host.start(daemon, environment, log)

    def submit(self, *arguments: str) -> str:
        return self.hosts["ctl"].run("sbatch", "--parsable", *arguments).strip()

    def show(self, job: str) -> dict[str, str]:
        words = (self.try_run("ctl", "scontrol", "--oneliner", "show", "job", job) or "").split()
        return dict(word.split("=", 1) for word in words if "=" in word)


@contextmanager
def slurm_cluster(shared: Path) -> Iterator[SlurmCluster]:
    """Yield a cluster whose nodes are idle, for the length of a ``with`` block; skip the test without Slurm."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if lacking:
        pytest.skip(f"no {', '.join(lacking)} here; on Debian: apt-get install slurm-wlm munge")
    with SlurmCluster(shared) as cluster:
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        wait_until(lambda: (cluster.try_run("ctl", *idle) or "").strip() == str(len(NODES)), "the nodes are idle")
        yield cluster
