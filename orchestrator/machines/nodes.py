"""The machines of a cluster, and whether one of them has what a trial needs: nothing is split between two."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables.errors import ConfigError


@dataclass(frozen=True)
class Node:
    """One machine, as Ray counts.

    Attributes:
        name: For people.
        cpus: All that it has, >= 0, taken or not.
        gpus: The same.
    """

    name: str
    cpus: float
    gpus: float


def alive(told: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return the machines that are there, of those that ``ray.nodes`` tells of."""
    return [
        Node(node["NodeManagerHostname"], node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
        for node in told
        if node["Alive"]
    ]


def total(nodes: Iterable[Node]) -> dict[str, float]:
    """Return ``CPU`` and ``GPU`` of all machines together."""
    nodes = list(nodes)
    return {"CPU": sum(node.cpus for node in nodes), "GPU": sum(node.gpus for node in nodes)}


def check_fits(cpus: float, gpus: float, nodes: Sequence[Node]) -> None:
    """Refuse a trial that no machine has room for: Ray would wait for one for ever, and say nothing.

    Args:
        cpus: That a trial asks for, > 0.
        gpus: The same, >= 0.
        nodes: At least one.

    Raises:
        ConfigError: If it fits none of them; the message names the largest.
    """
    if any(node.cpus >= cpus and node.gpus >= gpus for node in nodes):
        return
    # Machines without the GPUs are no use, however many CPUs they have.
    largest = max(nodes, key=lambda node: (min(node.gpus, gpus), node.cpus, node.gpus))
    key = "gpus" if largest.gpus < gpus else "cpus"
    asked = f"{cpus:g} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
    raise ConfigError(
        f"resources.{key}: a trial asks for {asked} of one machine, but the largest, {largest.name}, has "
        f"{largest.cpus:g} CPUs and {largest.gpus:g} GPUs; lower it with --set resources.{key}=..."
    )
