"""How many trials share a GPU, from the measured GPU memory of a trial: ``resources.gpus: auto``.

Ray only counts fractions of a GPU: nothing keeps a trial from taking more memory than its share. So the share is the
memory of the largest trial, with a margin for longer captions and fragments. CUDA's own memory of a process is added.
"""

import math
from collections.abc import Iterable, Mapping

from orchestrator.experiment.sections import Resources

KEEP_FREED_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
}
"""Variables with which the C library keeps up to 2 GiB that a process frees, for its next step of the same sizes.

By default the C library gives the tensors of many trials back to the kernel after each step. The kernel fills the
memory of the next step with zeros first. That took a quarter of the time of 64 stacked heads on a CPU. The training of
one trial gained nothing. Only glibc reads the variables, when a process starts.
"""


MARGIN = 1.25
"""Factor on the measured peak, for captions that are longer than the measured captions and for fragmented memory.

``trainables.cost`` has the same factor; an import of it would load PyTorch into the driver.
"""

CONTEXT_BYTES = 600 * 2**20
"""GPU memory that CUDA and its libraries take for every process; PyTorch's allocator does not count it."""

MOST = 8
"""Most trials on a GPU at a time: further trials would only wait for the kernels of the others."""


def choose_share(footprints: Iterable[tuple[int, int]]) -> float:
    """Return the part of a GPU that every trial gets, so that the largest trials fit side by side on the smallest GPU.

    Args:
        footprints: The most bytes that a trial takes, >= 0, and the bytes that are free on its GPU, > 0.

    Returns:
        1 / n with n whole, rounded down to the 1/10,000 in which Ray counts; 1 where even two trials would not fit.
    """
    fitting = (room / (peak * MARGIN + CONTEXT_BYTES) for peak, room in footprints)
    trials = max(1, min(MOST, int(min(fitting, default=1))))
    return math.floor(10_000 / trials) / 10_000


def share_after_oom(share: float, halvings: int) -> float:
    """Return the part of a GPU that a trial gets after memory ran out: each time half as many trials share a GPU.

    A lower limit on all trials would not help: Ray could still place as many trials as before on one GPU, and leave
    another GPU empty. ``share``, >= 0, is the part that a trial got at first.
    """
    if halvings == 0 or not 0 < share < 1:
        return share
    trials = max(1, int(1 / share + 1e-6) >> halvings)
    return math.floor(10_000 / trials) / 10_000


def describe_limit(wanted: Resources, gpus: float, available: Mapping[str, float], fuse: int = 1) -> str | None:
    """Say that CPUs, not GPUs, limit how many trials run at once; ``None`` where they do not.

    As many trials as ``fuse`` says, >= 1, share ``wanted.cpus`` and ``gpus``, a part of a GPU, >= 0. Of all machines
    together, ``CPU`` and ``GPU`` are ``available``.
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
    """Say which study keeps other studies from fusing the number of trials that is fastest for them, if any does.

    All studies ask Ray for places of one size, so the trials of all studies are fused in groups of one size: the size
    that is fastest for the study that gains least. ``fusions``: study -> how many of its trials train fastest at once.
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
