"""A Ray for all tests of a process, on a machine that may be too busy to start one at the first try."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psutil
import pytest

from orchestrator.journal.lock import make_scratch
from orchestrator.machines.cluster import ClusterError
from orchestrator.tuner.runtime import ray_runtime

TWO_CPUS = {"RAY_OVERRIDE_RESOURCES": '{"CPU": 2}'}
"""Environment that gives a Ray two CPUs when it starts, however many the machine has: two trials run at a time."""

TRIES = 5
"""So often a Ray is started that is not there within the 30 s which Ray gives its node manager."""


@contextmanager
def shared_ray() -> Iterator[None]:
    """Start a Ray of two CPUs for the length of a ``with`` block."""
    with ExitStack() as stack:
        for left in reversed(range(TRIES)):
            before = set(psutil.Process().children())
            # Other variables stay: the token of this Ray is one of them.
            with pytest.MonkeyPatch.context() as patch:
                for name, value in TWO_CPUS.items():
                    patch.setenv(name, value)
                try:
                    stack.enter_context(ray_runtime(stack.enter_context(make_scratch())))
                    break
                except ClusterError:
                    end(set(psutil.Process().children()) - before)
                    if not left:
                        raise
        yield


def end(started: set[psutil.Process]) -> None:
    """Kill what a Ray that did not start has left."""
    for process in started:
        with suppress(psutil.NoSuchProcess):
            for one in (*process.children(recursive=True), process):
                one.kill()
            process.wait(60)
