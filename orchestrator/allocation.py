"""What a trial gets of the machines: CPUs as asked for, and a part of a GPU as asked for or as measured."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import ray
from ray.exceptions import RayError

from orchestrator.gpu_share import Footprint, choose_share, describe_limit
from orchestrator.sections import Resources
from orchestrator.workload import Workload
from trainables.config import TrialConfig
from trainables.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.tuner import Session


def allocate(session: "Session", available: Mapping[str, float]) -> tuple[dict[str, float], int]:
    """Return what a trial asks Ray for and how many are fused, and write down what limits how many run at once.

    Args:
        session: Of the process.
        available: ``CPU`` and ``GPU`` of all machines together.

    Raises:
        ConfigError: If no trial could ever start.
    """
    wanted, gpus = session.experiment.resources, session.experiment.resources.gpus
    fuse = min(measure_fusion(session, available)) if wanted.fuse == "auto" else wanted.fuse
    if gpus == "auto":
        has_gpu = available.get("GPU", 0) >= 1
        # Fused trials have a GPU to themselves.
        gpus = 0.0 if not has_gpu else 1.0 if fuse > 1 else choose_share(measure(session))
    resources = fitting_resources(wanted, gpus, available)
    if limit := describe_limit(wanted, gpus, available):
        session.ledger.append("limit_noted", message=limit)
    # Rounded down to the 1/10,000 in which Ray counts.
    return {name: math.floor(amount / fuse * 10_000) / 10_000 for name, amount in resources.items()}, fuse


def fitting_resources(wanted: Resources, gpus: float, available: Mapping[str, float]) -> dict[str, float]:
    """Return what a trial asks Ray for.

    Raises:
        ConfigError: If no trial could ever start.
    """
    for key, name, amount in (("cpus", "CPU", wanted.cpus), ("gpus", "GPU", gpus)):
        if amount > available.get(name, 0):
            raise ConfigError(
                f"resources.{key}: a trial asks for {amount:g}, but there are {available.get(name, 0):g}; "
                f"lower it with --set resources.{key}=..."
            )
    return {"cpu": wanted.cpus, "gpu": gpus}


def measure(session: "Session") -> list[Footprint]:
    """Return what a trial of each study takes, from the journal where it was measured before."""
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
            session.ledger.append(
                "limit_noted", message=f"{study}: its GPU memory could not be measured, so a trial gets a GPU: {reason}"
            )
            return [Footprint(1, 1)]
        session.ledger.append("memory_measured", study=study, peak=found.peak, room=found.room)
    return [Footprint(**session.ledger.history.footprints[cell.name]) for cell in session.experiment.cells()]


def measure_fusion(session: "Session", available: Mapping[str, float]) -> list[int]:
    """Return how many trials of each study train fastest at once, from the journal where it was measured before."""
    from trainables.fused_pace import choose_fusion

    known, wanted = session.ledger.history.fusions, session.experiment.resources
    gpus = 1 if wanted.gpus != 0 and available.get("GPU", 0) >= 1 else 0
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
            session.ledger.append(
                "limit_noted", message=f"{study}: trials are not fused, for timing them failed: {reason}"
            )
            return [1]
        # As keys of JSON, which are text.
        told = {str(trials): round(rate, 2) for trials, rate in rates.items()}
        session.ledger.append("fusion_measured", study=study, trials=choose_fusion(rates), epochs_per_hour=told)
    return [session.ledger.history.fusions[cell.name] for cell in session.experiment.cells()]


@ray.remote(max_calls=1, max_retries=1)
def _rates(workload: Workload, config: TrialConfig) -> Mapping[int, float]:
    return workload.rates(config)


# In a process that ends with it, so that no memory stays with Ray's workers.
@ray.remote(num_gpus=1, max_calls=1, max_retries=1)
def _measure(workload: Workload, config: TrialConfig) -> Footprint:
    return workload.measure(config)
