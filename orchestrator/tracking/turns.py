"""The interval after which Python switches from the thread that delivers to MLflow to a waiting thread.

Python has one switch interval for the whole process, and a process can run two searches at once (``icr.search`` in two
threads): the first tracker that starts shortens the interval, the last tracker that ends restores the old interval.
"""

import sys
import threading

TURN_SECONDS = 0.0005
"""Seconds after which Python switches between threads while trials are delivered.

A delivery keeps its thread busy most of the time. With Python's default, the driver would wait 5 ms for its turn after
each wait for the disk or Ray, several times a trial.
"""


class ShortTurns:
    """Shortens the interval from the first ``begin`` to the last ``end``; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._interval_before = sys.getswitchinterval()

    def begin(self) -> None:
        """Shorten the turns, until as many calls of ``end`` as of ``begin`` were made."""
        with self._lock:
            if self._users == 0:
                self._interval_before = sys.getswitchinterval()
                sys.setswitchinterval(TURN_SECONDS)
            self._users += 1

    def end(self) -> None:
        """Restore the old interval, unless another tracker still needs the short interval."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setswitchinterval(self._interval_before)


SHORT_TURNS = ShortTurns()
"""The only instance of this process, because the process has only one switch interval."""
