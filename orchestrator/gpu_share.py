"""How many trials share a GPU, from what one of them was measured to take: ``resources.gpus: auto``.

Ray's fractions of a GPU are bookkeeping: nothing keeps a trial from taking more memory than its share. So the share is
what the largest trial took, with a margin for longer captions and fragments, and with what CUDA takes for each process.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.sections import Resources

MARGIN = 1.25
"""Times the measured peak: captions that are longer than those measured, and memory that is free in pieces."""

CONTEXT_BYTES = 600 * 2**20
"""What CUDA and its libraries take of a GPU for every process, which no allocator counts."""

MOST = 8
"""Trials on a GPU at a time: more only wait for each other's kernels."""


@dataclass(frozen=True)
class Footprint:
    """What a training was measured to take.

    Attributes:
        peak: Bytes that it held at a time, >= 0.
        room: Bytes of the GPU that were free before, > 0.
    """

    peak: int
    room: int


def choose_share(footprints: Iterable[Footprint]) -> float:
    """Return the part of a GPU that every trial gets, so that the largest trials fit beside each other on the smallest.

    Returns:
        1 / n with n whole, rounded down to the 1/10,000 in which Ray counts; 1 where even two trials would not fit.
    """
    trials = min((fitting(footprint) for footprint in footprints), default=1)
    return math.floor(10_000 / trials) / 10_000


def fitting(footprint: Footprint) -> int:
    """Return how many such trainings fit on the GPU at a time, in [1, MOST]."""
    each = footprint.peak * MARGIN + CONTEXT_BYTES
    return max(1, min(MOST, int(footprint.room / each)))


def describe_limit(wanted: Resources, gpus: float, available: Mapping[str, float]) -> str | None:
    """Say that CPUs, not GPUs, limit how many trials run at once; ``None`` where they do not.

    Args:
        wanted: Of the experiment.
        gpus: What a trial gets of a GPU, >= 0.
        available: ``CPU`` and ``GPU`` of all machines together.
    """
    if gpus == 0:
        return None
    by_gpus = int(available.get("GPU", 0) / gpus + 1e-6)
    by_cpus = int(available.get("CPU", 0) / wanted.cpus + 1e-6)
    asked = by_gpus if wanted.max_concurrent is None else min(by_gpus, wanted.max_concurrent)
    if by_cpus >= asked:
        return None
    enough = math.floor(100 * available.get("CPU", 0) / asked) / 100
    return (
        f"the GPUs would take {asked} trials at a time, but {available.get('CPU', 0):g} CPUs let {by_cpus} run at "
        f"resources.cpus={wanted.cpus:g}; lower it, e.g. --set resources.cpus={enough:g}"
    )
