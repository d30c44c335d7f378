"""The share of the machines that each trial gets: CPUs as asked for, and GPUs as asked for or as measured.

A cluster whose head has no CPUs is meant to grow: an autoscaler starts machines once they are wanted. A search that
refused to start because a trial fits on no machine would refuse too soon. Ray has no stable way to say whether a
cluster has an autoscaler, and a person may also start a machine by hand. So the search waits for the first machine that
runs trials, for a limited time.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import RayError

from orchestrator.experiment.sections import Resources
from orchestrator.journal.records import FusionMeasured, LimitNoted, MemoryMeasured, Record
from orchestrator.machines.cluster import ClusterError, Node, alive, check_fits, total
from orchestrator.machines.gpu_share import KEEP_FREED_MEMORY, choose_share, describe_fusion, describe_limit
from orchestrator.text.terminal import say
from orchestrator.workload.workload import Workload
from trainables.config import TrialConfig
from trainables.errors import last_error

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


class Allocation(NamedTuple):
    """The share of a trial.

    Attributes:
        resources: By Ray's names.
        fuse: How many trials are fused into one engine.
        in_turns: Dataset and model of the trials that an engine does not stack.
    """

    resources: dict[str, float]
    fuse: int
    in_turns: frozenset[tuple[str, str]]


def allocate(session: "Session", nodes: Sequence[Node]) -> Allocation:
    """Return the share of a trial.

    The journal gets a note for people about the limit of trials at a time.

    Raises:
        ConfigError: If no machine has the resources of a trial.
    """
    wanted, available = session.experiment.resources, total(nodes)
    has_gpu = available["GPU"] >= 1
    # The check precedes the measurements, which take a whole GPU and would wait for ever on machines without room.
    check_fits(wanted.cpus, float(has_gpu) if wanted.gpus == "auto" else wanted.gpus, nodes)
    fuse = choose_fuse(session, has_gpu=has_gpu) if wanted.fuse == "auto" else wanted.fuse
    gpus = wanted.gpus
    if gpus == "auto":
        # An engine of fused trials has a GPU to itself.
        is_shared = has_gpu and fuse == 1
        gpus = choose_share(measure_footprints(session, int(available["GPU"]))) if is_shared else float(has_gpu)
    if limit := describe_limit(wanted, gpus, available, fuse):
        session.ledger.append(LimitNoted(message=limit))
    # Ray counts in 1/10,000. Shares are rounded down, so that together they are never more than the machine has.
    shares = {"cpu": wanted.cpus / fuse, "gpu": gpus / fuse}
    rounded = {name: math.floor(share * 10_000) / 10_000 for name, share in shares.items()}
    return Allocation(rounded, fuse, _in_turns(session) if wanted.fuse == "auto" else frozenset())


def _in_turns(session: "Session") -> frozenset[tuple[str, str]]:
    """Return dataset and model of those studies of which all were measured to be faster in turns."""
    faster, cells = session.ledger.history.in_turns, session.experiment.studies()
    slower = {(cell.dataset, cell.model) for cell in cells if cell.name not in faster}
    return frozenset({(cell.dataset, cell.model) for cell in cells} - slower)


def choose_fuse(session: "Session", *, has_gpu: bool) -> int:
    """Return how many trials are fused: the least of the studies' numbers; the journal notes which study sets it."""
    from trainables.cost import choose_way

    known, wanted = session.ledger.history.fusions, session.experiment.resources

    def measured(study: str, rates: tuple[Mapping[int, float], Mapping[int, float]]) -> FusionMeasured:
        way = choose_way(*rates)
        # Keys of JSON are text.
        epochs_per_hour = {str(trials): round(rate, 2) for trials, rate in way.rates.items()}
        return FusionMeasured(study=study, trials=way.trials, epochs_per_hour=epochs_per_hour, in_turns=way.in_turns)

    task = _rates.options(num_cpus=wanted.cpus, num_gpus=1 if wanted.gpus != 0 and has_gpu else 0)
    problem = "trials are not fused, for timing them failed"
    failed = _record(session, task, known, measured, problem, len(session.experiment.studies()))
    fusions = {failed: 1} if failed else {cell.name: known[cell.name] for cell in session.experiment.studies()}
    if limit := describe_fusion(fusions):
        session.ledger.append(LimitNoted(message=limit))
    return min(fusions.values())


def measure_footprints(session: "Session", gpus: int) -> list[tuple[int, int]]:
    """Return the GPU memory that a trial of each study takes; a whole GPU where it cannot be measured.

    One process on each of the GPUs measures its part of the studies: to start one takes longer than to measure.
    """

    def measured(study: str, footprint: tuple[int, int]) -> MemoryMeasured:
        peak, room = footprint
        return MemoryMeasured(study=study, peak=peak, room=room)

    known, task = session.ledger.history.footprints, _measure.options(num_cpus=session.experiment.resources.cpus)
    problem = "its GPU memory could not be measured, so a trial gets a GPU"
    if _record(session, task, known, measured, problem, gpus):
        return [(1, 1)]
    return [known[cell.name] for cell in session.experiment.studies()]


def _record(
    session: "Session",
    task: Any,
    known: Mapping[str, Any],
    measured: Callable[[str, Any], Record],
    problem: str,
    tasks: int,
) -> str | None:
    """Divide the studies that the journal does not know among tasks of Ray, all at once, and record the answers.

    The first study that fails is the last: it is returned, and the journal gets a note, ``problem``, for people.
    """
    experiment = session.experiment
    cells = [cell for cell in experiment.studies() if cell.name not in known]
    parts = [cells[first::tasks] for first in range(min(tasks, len(cells)))]
    begun = [
        (part, task.remote(session.workload, [experiment.trial_config(cell, {}) for cell in part])) for part in parts
    ]
    for cell, answers in ((cell, answers) for part, answers in begun for cell in part):
        try:
            session.ledger.append(measured(cell.name, ray.get(next(answers))))
        except RayError as error:
            session.ledger.append(LimitNoted(message=f"{cell.name}: {problem}: {last_error(str(error))}"))
            return cell.name
    return None


# The process is one like that of an engine.
@ray.remote(max_calls=1, max_retries=1, num_returns="streaming", runtime_env={"env_vars": KEEP_FREED_MEMORY})
def _rates(
    workload: Workload, configs: Sequence[TrialConfig]
) -> Iterator[tuple[Mapping[int, float], Mapping[int, float]]]:
    for config in configs:
        yield workload.rates(config), workload.rates_in_turns(config)


# The process ends after one call (``max_calls``), so that Ray's workers hold no memory of the GPU.
@ray.remote(num_gpus=1, max_calls=1, max_retries=1, num_returns="streaming")
def _measure(workload: Workload, configs: Sequence[TrialConfig]) -> Iterator[tuple[int, int]]:
    for config in configs:
        yield workload.measure(config)


LONGEST_SECONDS = 900.0
"""Seconds within which the first machine must join; Ray's autoscaler gives a machine the same time to start."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the machines."""


def machines_that_run_trials(wanted: Resources, is_over: Callable[[], bool]) -> list[Node]:
    """Return the machines of the cluster; if none runs trials, wait for the first machine that does.

    There are none if ``is_over`` says, before a machine has joined, that the process is to end.

    Raises:
        ClusterError: If no machine joined in time.
    """
    nodes = alive(ray.nodes())
    if any(node.cpus > 0 for node in nodes):
        return nodes
    resources = {"CPU": wanted.cpus} | ({} if wanted.gpus in ("auto", 0) else {"GPU": float(wanted.gpus)})
    shape = " and ".join(f"{amount:g} {name}s" for name, amount in resources.items())
    say(
        f"no machine of the cluster runs trials yet: the search waits up to {LONGEST_SECONDS / 60:g} minutes for "
        f"{shape}, and asks an autoscaler to start a machine",
        error=True,
    )
    # No trial waits for room yet, so an autoscaler has no other sign that a machine is wanted.
    request_resources(bundles=[resources])
    try:
        began = time.monotonic()
        while not is_over():
            nodes = alive(ray.nodes())
            if any(node.cpus >= resources["CPU"] and node.gpus >= resources.get("GPU", 0) for node in nodes):
                return nodes
            if time.monotonic() - began > LONGEST_SECONDS:
                raise ClusterError(
                    f"no machine with {shape} joined the cluster in {LONGEST_SECONDS / 60:g} minutes; ask the "
                    f"autoscaler (ray status), or start a machine (ray start --address=HEAD:6379), then resume with "
                    f"the same command"
                )
            time.sleep(LOOK_SECONDS)
        return []
    finally:
        # A request holds until the next request, and would keep a machine that no trial needs.
        request_resources(bundles=[])
