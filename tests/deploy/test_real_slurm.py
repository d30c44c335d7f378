"""The Slurm script under a real Slurm: two nodes whose own names are 127.0.1.1, INT, requeue, and scancel.

Where Slurm is missing the tests skip and say how Debian installs it.
"""

from collections.abc import Iterator

import pytest

from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.network import wait_until
from tests.deploy.slurm_cluster import NODES, SlurmCluster, slurm_cluster
from tests.deploy.tiny_search import assert_finished, write_tiny_search

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    shared = tmp_path_factory.mktemp("slurm")
    # Batches of four: with batches of 16 the search took a few seconds, and could end before the test sent its signal.
    write_tiny_search(shared, epochs=40, batch_size=4)
    with slurm_cluster(shared) as started:
        yield started


def submit(cluster: SlurmCluster, name: str) -> str:
    shared = cluster.shared
    variables = (
        f"ICR_HOME={shared}/home,DATA={shared}/data,OUTPUT={shared}/{name},PATH,HOME,ICR_PAUSE=1,PYTHONPATH={ROOT}"
    )
    options = ["--nodes=2", "--gpus-per-node=0", "--cpus-per-task=2", "--mem=6G", "--time=20", f"--export={variables}"]
    place = [f"--output={shared}/{name}.out", f"--chdir={shared}"]
    return cluster.submit(*options, *place, str(DEPLOY / "slurm" / "search.sbatch"), str(shared / "tiny.yaml"))


def epochs(cluster: SlurmCluster, name: str) -> int:
    journal = cluster.shared / name / "tiny" / "journal.jsonl"
    return journal.read_text().count('"kind":"epoch"') if journal.exists() else 0


def output(cluster: SlurmCluster, name: str) -> str:
    file = cluster.shared / f"{name}.out"
    return file.read_text() if file.exists() else ""


def assert_nothing_left(cluster: SlurmCluster, name: str, job: str) -> None:
    assert not list((cluster.shared / name).glob(".ray-token-*"))
    wait_until(
        lambda: not any((cluster.try_run(node, "ls", "-d", f"/tmp/ray-{job}") or "").strip() for node in NODES),
        f"/tmp/ray-{job} is gone from every node",
        60,
    )


def test_a_job_uses_all_nodes_is_queued_again_when_its_time_is_nearly_over_and_ends(cluster: SlurmCluster) -> None:
    job = submit(cluster, "whole")
    wait_until(lambda: epochs(cluster, "whole") > 5, "epochs are trained", 240)
    assert "2 of 2 nodes have joined Ray" in output(cluster, "whole")
    cluster.hosts["ctl"].run("scancel", "--batch", "--signal=INT", job)
    # Only once the job waits for its time can the wait be cut short.
    waits = {"JobState": "PENDING", "Reason": "BeginTime", "Restarts": "1"}
    wait_until(lambda: waits.items() <= cluster.show(job).items(), "the job is queued again", 120)
    before = epochs(cluster, "whole")
    cluster.hosts["ctl"].run("scontrol", "update", f"JobId={job}", "StartTime=now")
    wait_until(
        lambda: cluster.show(job).get("JobState") == "COMPLETED", f"the job ends:\n{output(cluster, 'whole')}", 600
    )
    assert_finished(cluster.shared / "whole")
    assert before < epochs(cluster, "whole") == 160
    assert_nothing_left(cluster, "whole", job)


def test_a_cancelled_job_is_not_queued_again_and_leaves_nothing(cluster: SlurmCluster) -> None:
    job = submit(cluster, "cancelled")
    wait_until(lambda: epochs(cluster, "cancelled") > 5, "epochs are trained", 240)
    cluster.hosts["ctl"].run("scancel", job)
    wait_until(lambda: cluster.show(job).get("JobState") == "CANCELLED", "the job is cancelled", 60)
    wait_until(lambda: "search" not in (cluster.try_run("ctl", "squeue", "--noheader") or ""), "the queue is empty", 60)
    assert cluster.show(job)["Restarts"] == "0"
    assert epochs(cluster, "cancelled") > 5
    assert_nothing_left(cluster, "cancelled", job)
