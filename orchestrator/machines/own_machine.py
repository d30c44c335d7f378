"""What a Ray of our own needs of this machine: CPUs, open files, and shared memory for its object store.

What this process was given decides, which may be less than the machine has (``trainables.allotment``). Too few CPUs or
files are refused before any work: Ray would take ten seconds to refuse the former, and its own processes die without
the latter. Without shared memory Ray works, and its object store lies on the disk.
"""

import math
from pathlib import Path

from orchestrator.experiment.sections import Resources
from orchestrator.text.values import in_digits
from trainables.allotment import SHARED_MEMORY, usable_cpus, usable_files, usable_shared_memory
from trainables.errors import ConfigError

OBJECT_STORE_BYTES = 100 * 2**20
"""Bytes of Ray's object store, in which results are small; by default Ray takes a third of the machine's memory."""

FILES, FILES_OF_ACTOR = 200, 5
"""Open files of the largest process of a search, measured: of the driver without actors, and more for each actor."""


def check_machine(resources: Resources) -> None:
    """Refuse a search that wants more of this machine than this process may use.

    Raises:
        ConfigError: If a trial asks for too many CPUs, or all trials at a time need too many open files.
    """
    there = usable_cpus()
    if resources.cpus > there:
        raise ConfigError(
            f"resources.cpus: a trial asks for {resources.cpus:g}, but there are {there}; "
            f"lower it with --set resources.cpus=..."
        )
    actors = min(math.floor(there / resources.cpus), resources.max_concurrent or math.inf)
    if problem := want_of_files(int(actors)):
        raise ConfigError(f"{problem[0]}; {problem[1]}")


def want_of_files(actors: int, lower: str = "resources.max_concurrent") -> tuple[str, str] | None:
    """Return what is wrong, and what helps, where this process may open too few files for some actors; else ``None``.

    Args:
        actors: Number of processes of Ray that train or extract at a time, >= 1.
        lower: The key or option that a user lowers for fewer actors.
    """
    there, needed = usable_files(), FILES + FILES_OF_ACTOR * actors
    if there is None or there >= needed:
        return None
    problem = f"this process may open {there} files, and Ray with {actors} workers needs some {needed}"
    return problem, (
        f"raise the limit (ulimit -n {needed}; LimitNOFILE of systemd; --ulimit nofile of Docker), or lower {lower}"
    )


def want_of_shared_memory() -> tuple[str, str] | None:
    """Return what is wrong, and what helps, where Ray's object store has no room in shared memory; else ``None``."""
    free = usable_shared_memory()
    if free is None or free >= OBJECT_STORE_BYTES:
        return None
    mebibytes, wanted = in_digits(free / 2**20, 2), OBJECT_STORE_BYTES // 2**20
    problem = f"{SHARED_MEMORY} has room for {mebibytes} of the {wanted} MiB of Ray's object store"
    return f"{problem}, which lies on the disk instead", f"give it {2 * wanted} MiB (Docker: --shm-size=256m)"


def store_folder(scratch: Path) -> str | None:
    """Return the folder of Ray's object store: ``scratch`` where shared memory is short; ``None`` leaves it to Ray.

    Ray would do the same where shared memory is too small, and fail where there is none.
    """
    return None if want_of_shared_memory() is None else str(scratch)
