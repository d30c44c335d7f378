"""Whether a trial fits a machine: two that are small do not make a large one."""

import pytest

from orchestrator.machines.cluster import Node, alive, check_fits, total
from trainables.errors import ConfigError

BARE, SMALL, LARGE = Node("bare", 16, 0), Node("small", 2, 1), Node("large", 8, 4)


def told(name: str, resources: dict[str, float], *, is_alive: bool = True) -> dict[str, object]:
    return {"NodeManagerHostname": name, "Alive": is_alive, "Resources": {"memory": 1e9, **resources}}


def test_machines_that_are_gone_do_not_count() -> None:
    nodes = alive([told("bare", {"CPU": 16}), told("gone", {"CPU": 64, "GPU": 8}, is_alive=False), told("head", {})])
    assert nodes == [BARE, Node("head", 0, 0)]
    assert total([BARE, SMALL, LARGE]) == {"CPU": 26, "GPU": 5}


@pytest.mark.parametrize(
    ("cpus", "gpus", "nodes"),
    [(16, 0, [BARE]), (2, 1, [BARE, SMALL]), (8, 4, [BARE, SMALL, LARGE]), (0.5, 0.25, [SMALL])],
)
def test_a_trial_that_fits_one_machine_can_start(cpus: float, gpus: float, nodes: list[Node]) -> None:
    check_fits(cpus, gpus, nodes)


@pytest.mark.parametrize(
    ("cpus", "gpus", "nodes", "key", "asked", "largest"),
    [
        (17, 0, [BARE, BARE], "cpus", "17 CPUs", BARE),
        (10, 1, [BARE, SMALL, LARGE], "cpus", "10 CPUs and 1 GPUs", LARGE),
        (1, 2, [BARE, SMALL, SMALL], "gpus", "1 CPUs and 2 GPUs", SMALL),
    ],
    ids=["CPUs of two machines", "CPUs and GPUs of two machines", "GPUs of two machines"],
)
def test_a_trial_that_fits_no_machine_is_refused(
    cpus: float, gpus: float, nodes: list[Node], key: str, asked: str, largest: Node
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_fits(cpus, gpus, nodes)
    assert str(caught.value) == (
        f"resources.{key}: a trial asks for {asked} of one machine, but the largest, {largest.name}, has "
        f"{largest.cpus} CPUs and {largest.gpus} GPUs; lower it with --set resources.{key}=..."
    )
    assert caught.value.exit_code == 2
