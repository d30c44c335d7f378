"""Waiting for the first machine of a cluster that runs trials: an autoscaler brings machines only when they are wanted.

A cluster whose head has no CPUs is meant to grow; a trial that "fits none of its machines" would be refused too soon.
Ray tells nobody in a stable way whether an autoscaler is there, and a person may start a machine by hand as well, so
the wait has an end instead.
"""

import time
from collections.abc import Callable, Sequence

import ray
from ray.autoscaler.sdk import request_resources

from orchestrator.experiment.sections import Resources
from orchestrator.machines.cluster import ClusterError
from orchestrator.machines.nodes import Node, alive
from orchestrator.text.terminal import say

LONGEST_SECONDS = 900.0
"""How long the first machine may take; as long as Ray's autoscaler gives a machine to start."""

LOOK_SECONDS = 1.0
"""Between two looks at the machines."""


def machines_that_run_trials(wanted: Resources, is_over: Callable[[], bool]) -> list[Node]:
    """Return the machines of the cluster, after the first that can run a trial has come where none runs any.

    Args:
        wanted: What a trial asks for.
        is_over: Whether the process is to end, so that nobody needs machines any more.

    Returns:
        The machines; empty where the process is to end before one has come.

    Raises:
        ClusterError: If none came in time.
    """
    nodes = alive(ray.nodes())
    if any(node.cpus > 0 for node in nodes):
        return nodes
    asked = {"CPU": wanted.cpus} | ({} if wanted.gpus in ("auto", 0) else {"GPU": float(wanted.gpus)})
    shape = " and ".join(f"{amount:g} {name}s" for name, amount in asked.items())
    say(
        f"no machine of the cluster runs trials yet: the search waits up to {LONGEST_SECONDS / 60:g} minutes for the "
        f"first with {shape}, and asks the cluster's autoscaler for one where there is one",
        error=True,
    )
    # Until trials wait for room, nothing else tells an autoscaler that a machine is wanted.
    request_resources(bundles=[asked])
    try:
        return _wait(asked, shape, is_over)
    finally:
        # A request holds until the next one, and would keep a machine that no trial needs.
        request_resources(bundles=[])


def _wait(asked: dict[str, float], shape: str, is_over: Callable[[], bool]) -> list[Node]:
    began = time.monotonic()
    while not is_over():
        nodes = alive(ray.nodes())
        if _any_fits(asked, nodes):
            return nodes
        if time.monotonic() - began > LONGEST_SECONDS:
            raise ClusterError(
                f"no machine with {shape} has joined the cluster within {LONGEST_SECONDS / 60:g} minutes: "
                f"`ray status` on the head says what the autoscaler is doing; where the cluster has no autoscaler, "
                f"start a machine (ray start --address=HEAD:6379); then the same command goes on from here"
            )
        time.sleep(LOOK_SECONDS)
    return []


def _any_fits(asked: dict[str, float], nodes: Sequence[Node]) -> bool:
    return any(node.cpus >= asked["CPU"] and node.gpus >= asked.get("GPU", 0) for node in nodes)
