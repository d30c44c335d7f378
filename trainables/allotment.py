"""What this process may use of its machine: the kernel's affinity and control groups decide, not what is built in.

A job of Slurm, a container and a pod see all processors and the whole memory of their machine, and may use a part.
``cpu.max`` and ``memory.max``: Linux, Control Group v2; the older names are of version 1.
"""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path

GROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

SHARED_MEMORY = Path("/dev/shm")
"""Where Linux has the files of shared memory."""


def usable_cpus() -> int:
    """Return the number of processors, >= 1, on which the threads of this process may run at the same time."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota / period for quota, period in _quotas() if quota > 0 and period > 0]
    return max(1, min([given, *map(ceil, quotas)]))


def usable_memory(available: int) -> int:
    """Return the bytes, >= 0, that this process may still take of those that are ``available`` on its machine."""
    left = [limit - taken for limit, taken in _memory() if limit > 0]
    return max(0, min([available, *left]))


def usable_files() -> int | None:
    """Return how many files, > 0, this process may have open once it has raised its own limit; ``None`` is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if limit == resource.RLIM_INFINITY else limit


def usable_shared_memory() -> int | None:
    """Return the bytes, >= 0, that this process may still write to shared memory; ``None`` on other systems than Linux.

    A control group counts these bytes as memory of the process that wrote them.
    """
    if sys.platform != "linux":
        return None
    try:
        state = os.statvfs(SHARED_MEMORY)
    except OSError:
        return 0
    # Without the right to write there, nothing is free for this process.
    return usable_memory(state.f_bavail * state.f_frsize) if os.access(SHARED_MEMORY, os.W_OK | os.X_OK) else 0


def _folders(controller: str) -> Iterator[Path]:
    """Yield the groups of this process, each with those around it, whose limits count as well."""
    lines: list[str] = []
    with suppress(OSError):
        lines = OWN.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = GROUPS / controller if names else GROUPS
        folder = root / path.lstrip("/")
        # In a container the path may be that of the machine, where the container sees its own group as the root.
        yield from (part for part in (folder, *folder.parents) if part == root or root in part.parents)


def _numbers(path: Path) -> list[int]:
    """Return the numbers in a file; 0 for ``max``, and none where there is no such file."""
    with suppress(OSError, ValueError):
        return [0 if word == "max" else int(word) for word in path.read_text(encoding="ascii").split()]
    return []


def _quotas() -> Iterator[tuple[int, int]]:
    for folder in _folders("cpu"):
        if len(numbers := _numbers(folder / "cpu.max")) == 2:
            yield numbers[0], numbers[1]
        quota, period = _numbers(folder / "cpu.cfs_quota_us"), _numbers(folder / "cpu.cfs_period_us")
        if quota and period:
            yield quota[0], period[0]


def _memory() -> Iterator[tuple[int, int]]:
    for folder in _folders("memory"):
        for limit, taken in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            bounds, used = _numbers(folder / limit), _numbers(folder / taken)
            if bounds and used:
                yield bounds[0], used[0]
