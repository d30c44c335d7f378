"""The machines of a cluster, and whether a single machine has the CPUs and GPUs that a trial asks for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables.errors import ConfigError


@dataclass(frozen=True)
class Node:
    """One machine, with the CPUs and GPUs that Ray counts on it.

    Attributes:
        name: Name for people.
        cpus: All CPUs of the machine, >= 0, taken or not.
        gpus: All GPUs of the machine, >= 0, taken or not.
    """

    name: str
    cpus: float
    gpus: float


def alive(described: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return the machines that are alive, from the output of ``ray.nodes``."""
    return [
        Node(node["NodeManagerHostname"], node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
        for node in described
        if node["Alive"]
    ]


def total(nodes: Iterable[Node]) -> dict[str, float]:
    """Return ``CPU`` and ``GPU`` of all machines together."""
    nodes = list(nodes)
    return {"CPU": sum(node.cpus for node in nodes), "GPU": sum(node.gpus for node in nodes)}


def check_fits(cpus: float, gpus: float, nodes: Sequence[Node]) -> None:
    """Refuse a trial that fits on no machine: Ray would silently wait for ever.

    Args:
        cpus: CPUs that a trial asks for, > 0.
        gpus: GPUs that a trial asks for, >= 0.
        nodes: The machines, at least one.

    Raises:
        ConfigError: If the trial fits on no machine; the message names the largest machine.
    """
    if any(node.cpus >= cpus and node.gpus >= gpus for node in nodes):
        return
    # A machine without enough GPUs cannot run the trial, however many CPUs it has.
    largest = max(nodes, key=lambda node: (min(node.gpus, gpus), node.cpus, node.gpus))
    key = "gpus" if largest.gpus < gpus else "cpus"
    asked = f"{cpus:g} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
    raise ConfigError(
        f"resources.{key}: a trial asks for {asked} of one machine, but the largest, {largest.name}, has "
        f"{largest.cpus:g} CPUs and {largest.gpus:g} GPUs; lower it with --set resources.{key}=..."
    )
