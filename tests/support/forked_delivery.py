"""The process that delivers to MLflow, forked from a process that has imported MLflow, which takes 3 s.

The program is the product's, ``orchestrator.tracking.tracker``. Its start as a process of its own has tests of its own.
"""

import os
import signal
import subprocess
import sys
import time

from orchestrator.tracking import tracker
from orchestrator.tracking.tracker import TrackingProcess

LOOK_SECONDS = 0.05
"""Seconds between two looks whether a forked process has ended."""


class ForkedProcess:
    """A process that waits for what it is to deliver: as much of ``subprocess.Popen`` as ``TrackingProcess`` uses."""

    def __init__(self) -> None:
        (its_input, ours), (theirs, its_output) = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _deliver(its_input, its_output)
        os.close(its_input)
        os.close(its_output)
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, seconds: float = 60) -> int:
        deadline = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("orchestrator.tracking.tracker", seconds)
            time.sleep(LOOK_SECONDS)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def fork_delivery(pause: float = tracker.LONGEST_PAUSE) -> None:
    """Fork the process that the first search of this process delivers with; to be called before there are threads.

    Args:
        pause: Seconds for which the delivery leaves a server alone at most that does not answer.
    """
    tracker.LONGEST_PAUSE = pause
    waiting = [ForkedProcess()]
    begin = TrackingProcess._begin

    def begin_forked(self: TrackingProcess) -> "subprocess.Popen[bytes]":
        if not waiting:
            return begin(self)
        process = waiting.pop()
        process.stdin.write(self._target)
        process.stdin.flush()
        return process  # type: ignore[return-value]

    TrackingProcess._begin = begin_forked  # type: ignore[method-assign]


def _deliver(its_input: int, its_output: int) -> None:
    """Be the process that delivers; this function does not return."""
    os.setsid()
    os.dup2(its_input, 0)
    os.dup2(its_output, 1)
    # What else is open belongs to the search, e.g. the lock of its folder, which is to go with the search alone.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    tracker.main()
