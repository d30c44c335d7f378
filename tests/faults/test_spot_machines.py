"""Machines that are taken away and come back: every trial reaches its last epoch, and a preemption costs no try.

As Ray's own tests do it with its worker killer, but on nodes that are processes of one machine, and faster.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.journal.lock import make_scratch
from orchestrator.journal.records import TrialRetried, TrialStarted
from tests.faults.searches import Searches, grid
from tests.faults.troubled_workload import Trouble

pytestmark = pytest.mark.proof

WORKERS = 3
MEMORY = 80 * 2**20
EVERY = 5.0
"""Seconds between two looks of the killer; Ray's own takes 10."""
SPARED = 12.0
"""Seconds for which a new machine is left alone; Ray's own takes 45."""
CHANCE = 0.25
"""With which a machine dies at a look; Ray's own takes 0.03, and lasts longer."""


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that runs no trials, and some workers with a CPU each."""
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "4")
    from ray.cluster_utils import Cluster

    with make_scratch() as scratch:
        (scratch / "ray").mkdir()
        monkeypatch.setenv("RAY_TMPDIR", str(scratch))
        head = {"num_cpus": 0, "object_store_memory": MEMORY, "temp_dir": str(scratch), "include_dashboard": False}
        made = Cluster(initialize_head=True, connect=False, head_node_args=head)
        try:
            for _ in range(WORKERS):
                add(made)
            yield made
        finally:
            made.shutdown()


def add(machines: Any) -> Any:
    head = machines.head_node
    return machines.add_node(num_cpus=1, object_store_memory=MEMORY, temp_dir=head.get_temp_dir_path())


def drain(machines: Any, node: Any) -> None:
    """Tell Ray what a cloud tells of a spot machine: that it is taken away, here at once.

    To Ray a machine that dies before the time that it was told has failed, and was not preempted.
    """
    from ray._raylet import GcsClient
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline = int(time.time() * 1000)
    accepted, why_not = GcsClient(address=machines.address).drain_node(node.node_id, reason, "spot", deadline)
    assert accepted, why_not


def test_a_search_outlives_a_killer_of_machines(searches: Searches, machines: Any) -> None:
    searches.address = machines.address
    experiment = grid([0.3, 0.05, 0.2, 0.02, 0.1, 0.15], training={"epochs": 8}, resources={"max_concurrent": WORKERS})
    # The last trial ends when two have been killed at least, so that the test tests something.
    workload = searches.workload(seconds=1.0, troubles={0.15: Trouble("wait", epoch=8)})
    born = {node: time.monotonic() for node in machines.worker_nodes}
    chance, killed = random.Random(0), 0
    process = searches.start(experiment, workload)
    searches.wait_for(lambda history: bool(history.running()), process)
    while process.is_alive():
        process.join(EVERY)
        for node in [node for node, since in born.items() if time.monotonic() - since > SPARED]:
            if process.is_alive() and (killed < 2 or chance.random() < CHANCE):
                machines.remove_node(node, allow_graceful=False)
                del born[node]
                born[add(machines)] = time.monotonic()
                killed += 1
        if killed >= 2:
            workload.go.touch()
    assert process.exitcode == 0, searches.errors()
    assert killed >= 2
    searches.judge(kills=killed)


def test_a_machine_that_is_preempted_costs_no_try(searches: Searches, machines: Any) -> None:
    searches.address = machines.address
    values = [0.3, 0.05, 0.2]
    experiment = grid(values, training={"epochs": 12}, resources={"max_concurrent": WORKERS})
    workload = searches.workload(otherwise=Trouble("wait"))
    process = searches.start(experiment, workload)
    searches.wait_for(lambda history: sum(trial.last_epoch >= 1 for trial in history.running()) == len(values), process)
    taken = machines.worker_nodes.copy().pop()
    drain(machines, taken)
    machines.remove_node(taken, allow_graceful=False)
    add(machines)
    workload.go.touch()
    searches.join(process)
    records = searches.journal()
    starts = Counter(record.trial for record in records if isinstance(record, TrialStarted))
    assert sorted(starts.values()) == [1, 1, 2]
    assert [record.cause for record in records if isinstance(record, TrialRetried)] == ["preempted"]
    assert all(trial.setbacks == 0 for trial in searches.history().trials.values())
    searches.judge(kills=1)
