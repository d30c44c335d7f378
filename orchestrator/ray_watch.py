"""Work with Ray in a thread of its own, while the main thread watches the processes of Ray and hears the signals.

Where Ray's control store (GCS) or its node manager (raylet) dies, a call of Ray blocks for up to a minute, and then Ray
ends this process without a word of ours; nobody can interrupt a blocked call. The main thread makes none meanwhile, so
that it can end the search in order.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

import psutil

from trainables.errors import UserError

CORE = {"gcs_server": "its control store gcs_server", "raylet": "its node manager raylet"}
"""The processes without which Ray does nothing more: name -> what they are."""

LOOK_SECONDS = 0.5
"""Between two looks at the processes of Ray."""

GRACE_SECONDS = 1.0
"""Who ends the processes of Ray may be about to signal this one as well: so long a signal is waited for."""


class RayLostError(UserError):
    """A process of Ray died; what was written down before is whole."""

    exit_code = 1


class OwnRay:
    """The processes of a Ray that this process has started; empty where Ray was there before.

    Args:
        processes: What Ray has started directly.
    """

    def __init__(self, processes: Sequence[psutil.Process] = ()) -> None:
        self._started = processes
        self._core = {name: process for process in processes if (name := process.name()) in CORE}
        self._workers: list[psutil.Process] = []

    def lost(self) -> list[str]:
        """Return the names of the processes that are gone and without which Ray does nothing more."""
        gone = [name for name, process in self._core.items() if not _is_alive(process)]
        if self._core and not gone:
            # Noted beforehand, because nobody can tell whose the workers of a dead raylet were.
            with suppress(psutil.Error):
                self._workers = self._core["raylet"].children(recursive=True)
        return gone

    def kill(self) -> None:
        """Kill what is left of the processes and of their workers."""
        for process in (*self._workers, *self._started):
            with suppress(psutil.Error):
                process.kill()


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


class RayWork(threading.Thread):
    """Something that calls Ray, in a thread which does not keep the process from ending."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="ray work", daemon=True)
        self._work = work
        self._error: BaseException | None = None

    def run(self) -> None:
        """Work, and keep what it raises for the main thread."""
        with self:
            self._work()

    def __enter__(self) -> None:
        """Begin to keep what is raised."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Keep what was raised."""
        self._error = error
        return True

    def finish(self, own: OwnRay, abandon: Callable[[], None]) -> list[str]:
        """Start the work and wait for its end, or for that of Ray.

        Args:
            own: The Ray that it calls.
            abandon: Called before this returns or raises while the work goes on, which nobody can keep from doing so.

        Returns:
            The processes of Ray that died and left the work undone, and nothing of this Ray runs any more; empty where
            the work is done.

        Raises:
            BaseException: What the work raised, or a signal's handler.
        """
        self.start()
        try:
            lost: list[str] = []
            while self.is_alive() and not lost:
                self.join(LOOK_SECONDS)
                lost = own.lost()
        finally:
            if self.is_alive():
                abandon()
        if self._error is None and not self.is_alive():
            return []
        if lost:
            time.sleep(GRACE_SECONDS)
            own.kill()
        elif self._error is not None:
            raise self._error
        return lost
