"""Wait for a condition, with a limit that a passing run never reaches."""

import time
from collections.abc import Callable

import psutil


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, five minutes at most."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_ended(process: int) -> bool:
    """Say whether a process has ended; who started it may not have waited for it yet."""
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
