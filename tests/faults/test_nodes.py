"""A node of two is lost: its trials resume elsewhere, from their last checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.invariants import assert_invariants
from tests.faults.searches import Searches, grid
from tests.faults.troubled_workload import TroubledWorkload
from tests.support.simulated_nodes import simulated_nodes

# In CI, tests/integration/test_two_hosts.py takes a host away.
pytestmark = pytest.mark.proof


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray of two nodes with a CPU each, whose address is written where nobody looks for it."""
    # Ray gives a silent node up after half a minute otherwise.
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "4")
    with simulated_nodes(2, cpus=1, token=True) as made:
        yield made


def test_a_search_outlives_one_of_its_two_nodes(searches: Searches, two_nodes: Any, tmp_path: Path) -> None:
    searches.address = two_nodes.address
    experiment = grid([0.3, 0.05, 0.2, 0.02])
    workload = TroubledWorkload(seconds=1.0, log=tmp_path / "trained.jsonl")
    process = searches.start(experiment, workload)
    searches.wait_for(lambda history: sum(trial.last_epoch >= 1 for trial in history.running()) == 2, process)
    two_nodes.remove_node(two_nodes.list_all_nodes()[1], allow_graceful=False)
    process.join(240)
    assert process.exitcode == 0, searches.errors()
    lost = [trial for trial in searches.history().trials.values() if trial.retries]
    assert lost, "the node that was lost ran a trial"
    assert_invariants(searches.output, log=workload.log, kills=1)
