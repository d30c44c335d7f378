"""How many trials share a GPU, from what one of them was measured to take: ``resources.gpus: auto``.

Ray's fractions of a GPU are bookkeeping: nothing keeps a trial from taking more memory than its share. So the share is
what the largest trial took, with a margin for longer captions and fragments, and with what CUDA takes for each process.
"""

import math
from collections.abc import Iterable, Mapping

from orchestrator.experiment.sections import Resources
from orchestrator.workload.workload import Footprint

MARGIN = 1.25
"""Times the measured peak: captions that are longer than those measured, and memory that is free in pieces."""

CONTEXT_BYTES = 600 * 2**20
"""What CUDA and its libraries take of a GPU for every process, which no allocator counts."""

MOST = 8
"""Trials on a GPU at a time: more only wait for each other's kernels."""


def choose_share(footprints: Iterable[Footprint]) -> float:
    """Return the part of a GPU that every trial gets, so that the largest trials fit beside each other on the smallest.

    Returns:
        1 / n with n whole, rounded down to the 1/10,000 in which Ray counts; 1 where even two trials would not fit.
    """
    trials = min((fitting(footprint) for footprint in footprints), default=1)
    return math.floor(10_000 / trials) / 10_000


def share_after_oom(share: float, halvings: int) -> float:
    """Return the part of a GPU that a trial gets after memory ran out so often: half as many share one each time.

    Fewer trials at a time would not do: several GPUs may hold the same number each, and stand empty beside each other.

    Args:
        share: That it got at first, >= 0.
        halvings: How often the number of trials at a time was halved, >= 0.
    """
    if halvings == 0 or not 0 < share < 1:
        return share
    trials = max(1, int(1 / share + 1e-6) >> halvings)
    return math.floor(10_000 / trials) / 10_000


def fitting(footprint: Footprint) -> int:
    """Return how many such trainings fit on the GPU at a time, in [1, MOST]."""
    each = footprint.peak * MARGIN + CONTEXT_BYTES
    return max(1, min(MOST, int(footprint.room / each)))


def describe_limit(wanted: Resources, gpus: float, available: Mapping[str, float], fuse: int = 1) -> str | None:
    """Say that CPUs, not GPUs, limit how many trials run at once; ``None`` where they do not.

    Args:
        wanted: Of the experiment.
        gpus: What a trial gets of a GPU, or those that are fused get together, >= 0.
        available: ``CPU`` and ``GPU`` of all machines together.
        fuse: So many trials share ``wanted.cpus`` and ``gpus``, >= 1.
    """
    if gpus == 0:
        return None
    by_gpus = fuse * int(available.get("GPU", 0) / gpus + 1e-6)
    by_cpus = fuse * int(available.get("CPU", 0) / wanted.cpus + 1e-6)
    asked = by_gpus if wanted.max_concurrent is None else min(by_gpus, wanted.max_concurrent)
    if by_cpus >= asked:
        return None
    enough = math.floor(100 * available.get("CPU", 0) / math.ceil(asked / fuse)) / 100
    return (
        f"the GPUs would take {asked} trials at a time, but {available.get('CPU', 0):g} CPUs let {by_cpus} run at "
        f"resources.cpus={wanted.cpus:g}; lower it, e.g. --set resources.cpus={enough:g}"
    )


def describe_fusion(fusions: Mapping[str, int]) -> str | None:
    """Say which study keeps the others from being fused as they train fastest; ``None`` where none does.

    Trials of all studies get their places from the same Ray request, so that all are fused alike: as many as in the
    study that gains from it least.

    Args:
        fusions: Study -> how many of its trials train fastest at once.
    """
    if not fusions:
        return None
    least, most = min(fusions, key=fusions.__getitem__), max(fusions, key=fusions.__getitem__)
    if fusions[least] == fusions[most]:
        return None
    fused = "trials are not fused" if fusions[least] == 1 else f"{fusions[least]} trials are fused"
    return (
        f"{fused}, because {least} gains nothing from more; {most} would train fastest with {fusions[most]}: "
        f"search the two in experiments of their own"
    )
