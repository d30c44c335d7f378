"""Times things in turns, so that what else the machine does hits all of them alike."""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TypeVar

import torch

ENOUGH = 60.0
"""Seconds after which no further round begins: a machine that others use may be many times slower."""

Name, Value = TypeVar("Name"), TypeVar("Value")


def alternate(
    runs: Mapping[Name, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[Name, float]:
    """Return the median seconds of each run, all of them warm, over rounds in which each is run once."""
    seconds: dict[Name, list[float]] = {name: [] for name in runs}
    began = time.monotonic()
    for done in range(rounds):
        if done and time.monotonic() - began > ENOUGH:
            break
        for name, run in runs.items():
            wait()
            started = clock()
            run()
            wait()
            seconds[name].append(clock() - started)
    return {name: median(found) for name, found in seconds.items()}


def wait() -> None:
    """Wait until a GPU, where one is in use, has done what it was given."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def cpu_seconds(command: Sequence[object], folder: Path | None = None) -> float:
    """Return the CPU time of a command to its end, user and system; modules are compiled once, as for its users."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def apart(work: Callable[..., Value], *arguments: object) -> Value:
    """Return what a function returns in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *arguments).result()
