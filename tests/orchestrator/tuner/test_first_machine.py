"""Waiting for the first machine that runs trials, with a cluster that is a list and a clock that a test moves."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.experiment.sections import Resources
from orchestrator.machines.cluster import ClusterError, Node
from orchestrator.tuner import allocation
from orchestrator.tuner.allocation import machines_that_run_trials


def told(name: str, cpus: float, gpus: float = 0, *, is_alive: bool = True) -> dict[str, Any]:
    """Return what Ray tells of a machine; a resource of which there is none is left out, as Ray does."""
    resources = {name: amount for name, amount in {"CPU": cpus, "GPU": gpus}.items() if amount}
    return {"NodeManagerHostname": name, "Resources": resources, "Alive": is_alive}


HEAD = told("head", 0)


class Growing:
    def __init__(self, comes: dict[float, dict[str, Any]]) -> None:
        self.comes, self.now = comes, 0.0
        self.asked: list[list[dict[str, float]]] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [HEAD, *(node for second, node in self.comes.items() if second <= self.now)]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def grow(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[float, dict[str, Any]]], Growing]:
    def made(comes: dict[float, dict[str, Any]]) -> Growing:
        cluster = Growing(comes)
        monkeypatch.setattr(allocation.ray, "nodes", cluster.nodes)
        # In this module alone: threads that other tests have left behind sleep, too.
        monkeypatch.setattr(allocation, "time", SimpleNamespace(monotonic=lambda: cluster.now, sleep=cluster.sleep))
        monkeypatch.setattr(allocation, "request_resources", lambda bundles: cluster.asked.append(bundles))
        return cluster

    return made


@pytest.mark.parametrize(
    ("wanted", "comes", "seconds", "asked"),
    [
        pytest.param({"cpus": 2}, {0: told("worker", 4)}, 0, None, id="machines are there"),
        pytest.param({"cpus": 8}, {0: told("worker", 4)}, 0, None, id="machines are there, to be refused as too small"),
        pytest.param({"cpus": 2}, {600: told("worker", 4)}, 600, {"CPU": 2}, id="the first comes late"),
        pytest.param(
            {"cpus": 2, "gpus": 0.5}, {60: told("cpu", 4), 90: told("gpu", 4, 1)}, 90, {"CPU": 2, "GPU": 0.5}, id="GPU"
        ),
        pytest.param({"cpus": 2, "gpus": "auto"}, {60: told("gpu", 4, 1)}, 60, {"CPU": 2}, id="any, GPU or not"),
        pytest.param(
            {"cpus": 1}, {5: told("lost", 4, is_alive=False), 30: told("worker", 1)}, 30, {"CPU": 1}, id="one is lost"
        ),
    ],
)
def test_the_first_machine_is_waited_for_and_asked_for(
    grow: Callable[[dict[float, dict[str, Any]]], Growing],
    capsys: pytest.CaptureFixture[str],
    wanted: dict[str, Any],
    comes: dict[float, dict[str, Any]],
    seconds: float,
    asked: dict[str, float] | None,
) -> None:
    cluster = grow(comes)
    nodes = machines_that_run_trials(Resources(**wanted), lambda: False)
    assert nodes[0] == Node("head", 0, 0) and nodes[-1].cpus > 0
    assert cluster.now == pytest.approx(seconds, abs=1)
    said = capsys.readouterr().err
    if asked is None:
        assert (cluster.asked, said) == ([], "")
    else:
        # What is asked for is taken back, or the machine would stay for ever.
        assert cluster.asked == [[asked], []]
        assert said.startswith("no machine of the cluster runs trials yet: the search waits up to 15 minutes")


def test_one_that_never_comes_is_said_with_the_way_out(grow: Callable[[dict[float, dict[str, Any]]], Growing]) -> None:
    cluster = grow({5: told("small", 1)})
    with pytest.raises(ClusterError, match=r"no machine with 2 CPUs and 1 GPUs joined .* in 15 minutes; .*ray st"):
        machines_that_run_trials(Resources(cpus=2, gpus=1), lambda: False)
    assert cluster.now == pytest.approx(900, abs=2) and cluster.asked[-1] == []


def test_a_signal_ends_the_wait(grow: Callable[[dict[float, dict[str, Any]]], Growing]) -> None:
    cluster = grow({})
    assert machines_that_run_trials(Resources(), lambda: cluster.now > 10) == []
    assert cluster.now == pytest.approx(11, abs=1) and cluster.asked[-1] == []
