"""Waits until a cluster has its first machine that runs trials.

A cluster whose head has no CPUs is meant to grow: an autoscaler starts machines once they are wanted. A search that
refused to start because a trial fits no machine would refuse too soon. Ray has no stable way to tell whether a cluster
has an autoscaler, and a person may start a machine by hand as well; therefore the search waits, for a limited time.
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
"""Seconds within which the first machine must join; Ray's autoscaler gives a machine the same time to start."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the machines."""


def machines_that_run_trials(wanted: Resources, is_over: Callable[[], bool]) -> list[Node]:
    """Return the machines of the cluster; if none runs trials, wait for the first machine that does.

    Args:
        wanted: Resources of a trial.
        is_over: Returns whether the process is to end, so that no machine is needed any more.

    Returns:
        The machines; empty if the process is to end before a machine has joined.

    Raises:
        ClusterError: If no machine joined in time.
    """
    nodes = alive(ray.nodes())
    if any(node.cpus > 0 for node in nodes):
        return nodes
    resources = {"CPU": wanted.cpus} | ({} if wanted.gpus in ("auto", 0) else {"GPU": float(wanted.gpus)})
    shape = " and ".join(f"{amount:g} {name}s" for name, amount in resources.items())
    say(
        f"no machine of the cluster runs trials yet: the search waits up to {LONGEST_SECONDS / 60:g} minutes for the "
        f"first machine with {shape}, and asks the cluster's autoscaler, if it has one, to start the machine",
        error=True,
    )
    # No trial waits for room yet, so nothing else tells an autoscaler that a machine is wanted.
    request_resources(bundles=[resources])
    try:
        return _wait(resources, shape, is_over)
    finally:
        # A request holds until the next request, and would keep a machine that no trial needs.
        request_resources(bundles=[])


def _wait(resources: dict[str, float], shape: str, is_over: Callable[[], bool]) -> list[Node]:
    began = time.monotonic()
    while not is_over():
        nodes = alive(ray.nodes())
        if _any_fits(resources, nodes):
            return nodes
        if time.monotonic() - began > LONGEST_SECONDS:
            raise ClusterError(
                f"no machine with {shape} has joined the cluster within {LONGEST_SECONDS / 60:g} minutes: "
                f"`ray status` on the head says what the autoscaler is doing; where the cluster has no autoscaler, "
                f"start a machine (ray start --address=HEAD:6379); then resume with the same command"
            )
        time.sleep(LOOK_SECONDS)
    return []


def _any_fits(resources: dict[str, float], nodes: Sequence[Node]) -> bool:
    return any(node.cpus >= resources["CPU"] and node.gpus >= resources.get("GPU", 0) for node in nodes)
