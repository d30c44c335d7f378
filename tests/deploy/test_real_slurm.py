"""The Slurm script under a real Slurm: two nodes whose own names are 127.0.1.1, INT, requeue, and scancel.

Where Slurm is missing the tests skip and say how Debian installs it.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, ROOT, filled_in
from tests.deploy.network import Network
from tests.deploy.tiny_search import TRIALS, assert_finished, write_tiny_search
from tests.support.commands import run_command
from tests.support.hosts import Host
from tests.support.in_process import without_ray
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

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

EPOCHS, RERUN_EPOCHS = 10, 60
HELD = """
import os
import time
from pathlib import Path
from trainables.plugins import loss

@loss(space={"margin": (0.1, 0.3)})
def held(similarity, positives, ignore, margin=0.2):
    \"\"\"Hinge loss of trainings that wait, after the sixth epoch of their search, for the test.\"\"\"
    output = Path(os.environ["OUTPUT"])
    journal = output / "tiny" / "journal.jsonl"
    while not (output / "go").exists() and journal.exists() and journal.read_text().count('"kind":"epoch"') > 5:
        time.sleep(0.05)
    costs = (margin + similarity - similarity[positives].mean()).clamp(min=0)
    return costs[~positives & ~ignore].sum() / positives.sum()
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A cluster whose nodes are idle, with a search whose trainings wait."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if lacking:
        pytest.skip(f"no {', '.join(lacking)} here; on Debian: apt-get install slurm-wlm munge")
    shared = tmp_path_factory.mktemp("slurm")
    write_tiny_search(shared, epochs=EPOCHS, batch_size=16)
    (shared / "held.py").write_text(HELD)
    changes = {"losses: [triplet_sh]": "losses: [held]\nplugins: [held.py]"}
    (shared / "tiny.yaml").write_text(filled_in(shared / "tiny.yaml", changes))
    with SlurmCluster(shared) as started:
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        wait_until(lambda: (started.try_run("ctl", *idle) or "").strip() == str(len(NODES)), "the nodes are idle")
        yield started


def submit(cluster: SlurmCluster, name: str, script: str = "search", nodes: int = 2) -> str:
    shared = cluster.shared
    asked = {"search": "tiny.yaml", "regress": "nightly.yaml"}[script]
    variables = (
        f"ICR_HOME={shared}/home,DATA={shared}/data,OUTPUT={shared}/{name},PATH,HOME,ICR_PAUSE=1,PYTHONPATH={ROOT},"
        # On a busy machine the head takes longer to answer than the 5 s that Ray waits.
        "RAY_gcs_rpc_server_connect_timeout_s=60"
    )
    options = [
        f"--nodes={nodes}",
        "--gpus-per-node=0",
        "--cpus-per-task=2",
        "--mem=6G",
        "--time=20",
        f"--export={variables}",
    ]
    place = [f"--output={shared}/{name}.out", f"--chdir={shared}"]
    return cluster.submit(*options, *place, str(DEPLOY / "slurm" / f"{script}.sbatch"), str(shared / asked))


def epochs(cluster: SlurmCluster, name: str) -> int:
    journals = [*(cluster.shared / name).glob("tiny/journal.jsonl"), *(cluster.shared / name).glob("nightly/*/*.jsonl")]
    return sum(journal.read_text().count('"kind":"epoch"') for journal in journals)


def output(cluster: SlurmCluster, name: str) -> str:
    file = cluster.shared / f"{name}.out"
    return file.read_text() if file.exists() else ""


def assert_nothing_left(cluster: SlurmCluster, name: str, job: str) -> None:
    assert not list((cluster.shared / name).glob(".ray-token-*"))
    wait_until(
        lambda: not any((cluster.try_run(node, "ls", "-d", f"/tmp/ray-{job}") or "").strip() for node in NODES),
        f"/tmp/ray-{job} is gone from every node",
    )


def test_a_job_uses_all_nodes_is_queued_again_when_its_time_is_nearly_over_and_ends(cluster: SlurmCluster) -> None:
    job = submit(cluster, "whole")
    wait_until(lambda: epochs(cluster, "whole") > 5, "epochs are trained")
    assert "2 of 2 nodes have joined Ray" in output(cluster, "whole")
    cluster.hosts["ctl"].run("scancel", "--batch", "--signal=INT", job)
    # Only once the job waits for its time can the wait be cut short.
    waits = {"JobState": "PENDING", "Reason": "BeginTime", "Restarts": "1"}
    wait_until(lambda: waits.items() <= cluster.show(job).items(), "the job is queued again")
    before = epochs(cluster, "whole")
    (cluster.shared / "whole" / "go").touch()
    # In the second in which a job was killed its nodes take no other start of it.
    cluster.hosts["ctl"].run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    log = cluster.shared / "whole.out"
    wait_until(lambda: cluster.show(job).get("JobState") == "COMPLETED", "the job ends", log)
    assert_finished(cluster.shared / "whole")
    assert before < epochs(cluster, "whole") == TRIALS * EPOCHS
    assert_nothing_left(cluster, "whole", job)


def test_a_cancelled_job_is_not_queued_again_and_leaves_nothing(cluster: SlurmCluster) -> None:
    job = submit(cluster, "cancelled")
    wait_until(lambda: epochs(cluster, "cancelled") > 5, "epochs are trained")
    cluster.hosts["ctl"].run("scancel", job)
    wait_until(lambda: cluster.show(job).get("JobState") == "CANCELLED", "the job is cancelled")
    wait_until(lambda: "search" not in (cluster.try_run("ctl", "squeue", "--noheader") or ""), "the queue is empty")
    assert cluster.show(job)["Restarts"] == "0"
    assert epochs(cluster, "cancelled") > 5
    assert_nothing_left(cluster, "cancelled", job)


SUITE = f"""
name: nightly
seeds: 2
max_seeds: 2
matters: 300
training: {{epochs: {RERUN_EPOCHS}, batch_size: 16, learning_rate: 1.0e-2, embedding_size: 8}}
cells: [{{dataset: tiny, model: wsabie, loss: triplet_sh}}]
resources: {{cpus: 1, gpus: 0}}
"""


def test_a_rerun_fails_without_its_reference_and_is_queued_again_until_it_is_compared(cluster: SlurmCluster) -> None:
    shared = cluster.shared
    suite = shared / "nightly.yaml"
    suite.write_text(SUITE)
    job = submit(cluster, "lost", "regress", nodes=1)
    wait_until(lambda: cluster.show(job).get("JobState") == "FAILED", "the job fails", shared / "lost.out")
    assert cluster.show(job)["ExitCode"] == "2:0" and "--require-accepted" in output(cluster, "lost")
    with without_ray():
        place = ["--output", str(shared / "accepted")]
        assert run_command(["regress", str(suite), "--data-root", str(shared / "data"), *place]) == 0
        assert run_command(["regress", "accept", str(suite), "--why", "the first", *place]) == 0
    job = submit(cluster, "rerun", "regress", nodes=1)
    wait_until(lambda: epochs(cluster, "rerun") > 5, "epochs are trained", shared / "rerun.out")
    cluster.hosts["ctl"].run("scancel", "--batch", "--signal=INT", job)
    waits = {"JobState": "PENDING", "Reason": "BeginTime", "Restarts": "1"}
    wait_until(lambda: waits.items() <= cluster.show(job).items(), "the job is queued again", shared / "rerun.out")
    before = epochs(cluster, "rerun")
    cluster.hosts["ctl"].run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    wait_until(lambda: cluster.show(job).get("JobState") == "COMPLETED", "the job ends", shared / "rerun.out")
    assert 5 < before < epochs(cluster, "rerun") == 2 * RERUN_EPOCHS
    (rerun,) = (shared / "rerun" / "nightly").glob("*/report.html")
    assert json.loads(rerun.with_name("summary.json").read_text())["finding"] in ("ok", "identical")
    assert cluster.show(job)["ExitCode"] == "0:0"
