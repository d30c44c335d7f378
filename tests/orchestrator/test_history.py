"""What the journal says of the machines: what was measured is forgotten where it need not hold any more."""

from typing import Any

import pytest

from orchestrator.history import History
from tests.orchestrator.experiments import make_experiment

HERE = {"host": "a", "system": "Linux", "cpus": 8}


def started(machine: dict[str, Any], resources: dict[str, Any]) -> dict[str, Any]:
    experiment = make_experiment(resources=resources).to_dict()
    environment = {"versions": {}, "git_revision": None, "machine": machine}
    return happened("experiment_started", experiment=experiment, data={}, environment=environment)


def happened(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "time": 0.0, "elapsed": 0.0, **fields}


@pytest.mark.parametrize(
    ("machine", "resources", "is_kept"),
    [
        (HERE, {"cpus": 1}, True),
        (HERE, {"cpus": 2}, False),
        (HERE, {"cpus": 1, "max_concurrent": 3}, False),
        ({**HERE, "cpus": 16}, {"cpus": 1}, False),
        ({**HERE, "host": "b"}, {"cpus": 1}, False),
    ],
    ids=["the same", "other CPUs", "another limit", "more CPUs", "another machine"],
)
def test_what_was_measured_holds_for_the_same_resources_on_the_same_machine(
    machine: dict[str, Any], resources: dict[str, Any], is_kept: bool
) -> None:
    history = History.of(
        [
            started(HERE, {"cpus": 1}),
            happened("memory_measured", study="s", peak=5, room=9),
            happened("fusion_measured", study="s", trials=16),
            happened("concurrency_lowered", trials=2),
            started(machine, resources),
        ]
    )
    found = (history.footprints, history.fusions, history.concurrency, history.halvings)
    assert found == (({"s": {"peak": 5, "room": 9}}, {"s": 16}, 2, 1) if is_kept else ({}, {}, None, 0))
