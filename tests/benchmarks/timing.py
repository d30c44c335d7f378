"""Times things in turns, so that what else the machine does hits all of them alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

ENOUGH = 60.0
"""Seconds after which no further round begins: a machine that others use may be many times slower."""


def alternate(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each run by name, over rounds in which each is run once.

    What is to be warm must have been run before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    began = time.monotonic()
    for done in range(rounds):
        if done and time.monotonic() - began > ENOUGH:
            break
        for name, run in runs.items():
            wait()
            started = time.perf_counter()
            run()
            wait()
            seconds[name].append(time.perf_counter() - started)
    return {name: median(found) for name, found in seconds.items()}


def wait() -> None:
    """Wait until a GPU, where one is in use, has done what it was given."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
