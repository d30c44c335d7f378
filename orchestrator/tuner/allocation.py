"""The share of the machines that each trial gets: CPUs as asked for, and GPUs as asked for or as measured."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import ray
from ray.exceptions import RayError

from orchestrator.journal.experiment_records import Footprint, FusionMeasured, LimitNoted, MemoryMeasured
from orchestrator.machines.gpu_share import choose_share, describe_fusion, describe_limit
from orchestrator.machines.nodes import Node, check_fits, total
from orchestrator.workload.workload import Workload
from trainables.config import TrialConfig

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


def allocate(session: "Session", nodes: Sequence[Node]) -> tuple[dict[str, float], int]:
    """Return the resources that a trial asks Ray for, and how many trials are fused into one engine.

    What limits the number of trials at a time is written into the journal, for people.

    Args:
        session: What this start of the experiment shares.
        nodes: The machines on which trials can run.

    Raises:
        ConfigError: If no machine has what a trial asks for.
    """
    wanted, available = session.experiment.resources, total(nodes)
    has_gpu = available["GPU"] >= 1
    # Measurements take a whole GPU, and would wait for ever on machines without room.
    check_fits(wanted.cpus, float(has_gpu) if wanted.gpus == "auto" else wanted.gpus, nodes)
    fuse = choose_fuse(session, has_gpu=has_gpu) if wanted.fuse == "auto" else wanted.fuse
    gpus = wanted.gpus
    if gpus == "auto":
        # An engine of fused trials has a GPU to itself.
        gpus = 0.0 if not has_gpu else 1.0 if fuse > 1 else choose_share(measure(session))
    if limit := describe_limit(wanted, gpus, available, fuse):
        session.ledger.append(LimitNoted(message=limit))
    # Rounded down to the 1/10,000 in which Ray counts.
    shares = {"cpu": wanted.cpus / fuse, "gpu": gpus / fuse}
    return {name: math.floor(share * 10_000) / 10_000 for name, share in shares.items()}, fuse


def choose_fuse(session: "Session", *, has_gpu: bool) -> int:
    """Return how many trials are fused: the least of the studies' numbers; the journal notes which study sets it."""
    found = measure_fusion(session, has_gpu=has_gpu)
    if limit := describe_fusion(found):
        session.ledger.append(LimitNoted(message=limit))
    return min(found.values())


def measure(session: "Session") -> list[Footprint]:
    """Return the GPU memory that a trial of each study takes; what the journal has is not measured again."""
    known = session.ledger.history.footprints
    asked = {
        cell.name: _measure.options(num_cpus=session.experiment.resources.cpus).remote(
            session.workload, session.experiment.trial_config(cell, {})
        )
        for cell in session.experiment.cells()
        if cell.name not in known
    }
    for study, answer in asked.items():
        try:
            found: Footprint = ray.get(answer)
        except RayError as error:
            reason = str(error).strip().splitlines()[-1]
            limit = f"{study}: its GPU memory could not be measured, so a trial gets a GPU: {reason}"
            session.ledger.append(LimitNoted(message=limit))
            return [Footprint(1, 1)]
        session.ledger.append(MemoryMeasured(study=study, peak=found.peak, room=found.room))
    return [known[cell.name] for cell in session.experiment.cells()]


def measure_fusion(session: "Session", *, has_gpu: bool) -> dict[str, int]:
    """Return how many fused trials of each study train fastest; what the journal has is not measured again."""
    from trainables.cost.fused_pace import choose_fusion

    known, wanted = session.ledger.history.fusions, session.experiment.resources
    gpus = 1 if wanted.gpus != 0 and has_gpu else 0
    asked = {
        cell.name: _rates.options(num_cpus=wanted.cpus, num_gpus=gpus).remote(
            session.workload, session.experiment.trial_config(cell, {})
        )
        for cell in session.experiment.cells()
        if cell.name not in known
    }
    for study, answer in asked.items():
        try:
            rates: Mapping[int, float] = ray.get(answer)
        except RayError as error:
            reason = str(error).strip().splitlines()[-1]
            limit = f"{study}: trials are not fused, for timing them failed: {reason}"
            session.ledger.append(LimitNoted(message=limit))
            return {study: 1}
        # As keys of JSON, which are text.
        told = {str(trials): round(rate, 2) for trials, rate in rates.items()}
        session.ledger.append(FusionMeasured(study=study, trials=choose_fusion(rates), epochs_per_hour=told))
    return {cell.name: session.ledger.history.fusions[cell.name] for cell in session.experiment.cells()}


@ray.remote(max_calls=1, max_retries=1)
def _rates(workload: Workload, config: TrialConfig) -> Mapping[int, float]:
    return workload.rates(config)


# In a process that ends with it, so that no memory stays with Ray's workers.
@ray.remote(num_gpus=1, max_calls=1, max_retries=1)
def _measure(workload: Workload, config: TrialConfig) -> Footprint:
    return workload.measure(config)
