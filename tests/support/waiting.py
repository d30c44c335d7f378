"""Waiting for a condition, with a limit that a passing run never reaches, however busy the machine is."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil

PATIENCE = 900.0


def wait_until(condition: Callable[[], object], what: str = "what the test waits for", log: Path | None = None) -> None:
    """Wait until a condition holds; a failure says what did not come, with the end of a log."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            logged = log.read_text()[-4000:] if log is not None and log.exists() else ""
            raise AssertionError(f"not within {PATIENCE:g} s: {what}\n{logged}")
        time.sleep(0.05)


def has_ended(process: int) -> bool:
    """Say whether a process has ended; who started it may not have waited for it yet."""
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
