"""Work with Ray in a thread of its own, while the main thread watches the processes of Ray and hears the signals.

Where Ray's control store (GCS) or its node manager (raylet) dies, a call of Ray blocks for up to a minute, and then Ray
ends this process without a word of ours; nobody can interrupt a blocked call. The main thread makes none meanwhile, so
that it can end the search in order.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

import psutil

from orchestrator.storage.bucket import connection_problem
from trainables.errors import UserError

CORE = {"gcs_server": "its control store gcs_server died", "raylet": "its node manager raylet died"}
"""The processes without which Ray does nothing more: name -> what is said when they are gone."""

LOOK_SECONDS = 0.2
"""Between two looks at the processes of Ray."""

ASK_SECONDS = 5.0
"""Between two attempts to reach the head of a cluster."""

SILENT_SECONDS = 40.0
"""How long the head of a cluster may be out of reach; after 60 s Ray itself ends this process."""

GRACE_SECONDS = 1.0
"""Who ends the processes of Ray may be about to signal this one as well: so long a signal is waited for."""


class RayLostError(UserError):
    """A process of Ray died; what was written down before is whole.

    Args:
        place: What was being written.
        lost: What of Ray is gone.
        cost: What that costs.
    """

    exit_code = 1

    def __init__(self, place: Path, lost: Sequence[str], cost: str) -> None:
        super().__init__(
            f"{place}: Ray is gone ({', '.join(lost)}): somebody ended it, or the memory of the machine was short; "
            f"{cost}: the same command goes on from here"
        )


class Ray(Protocol):
    """The Ray that some work calls.

    Attributes:
        is_ours: Whether this process has started it, and nobody else uses it.
    """

    is_ours: bool

    def lost(self) -> list[str]:
        """Return what is gone and without which Ray does nothing more, for people."""
        ...

    def kill(self) -> None:
        """Kill what is left of it, where it is ours."""
        ...


class JoinedRay:
    """A Ray that others started, and that we leave as it is.

    Args:
        address: ``host:port`` of its head; ``None`` where the caller watches over it.
    """

    is_ours = False

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._asked = self._answered = time.monotonic()

    def lost(self) -> list[str]:
        """See ``Ray``."""
        if self._address is None:
            return []
        if time.monotonic() - self._asked >= ASK_SECONDS:
            host, _, port = self._address.rpartition(":")
            answers = connection_problem(host.strip("[]"), int(port)) is None
            self._asked = time.monotonic()
            self._answered = self._asked if answers else self._answered
        silent = time.monotonic() - self._answered
        return [f"its head at {self._address} has not answered for {silent:.0f} s"] if silent > SILENT_SECONDS else []

    def kill(self) -> None:
        """See ``Ray``."""


class OwnRay:
    """A Ray that this process has started.

    Args:
        processes: What Ray has started directly.
    """

    is_ours = True

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self._started = processes
        self._core = {name: process for process in processes if (name := process.name()) in CORE}
        self._workers: list[psutil.Process] = []

    def lost(self) -> list[str]:
        """See ``Ray``."""
        gone = [CORE[name] for name, process in self._core.items() if not is_alive(process)]
        if self._core and not gone:
            # Noted beforehand, because nobody can tell whose the workers of a dead raylet were.
            with suppress(psutil.Error):
                self._workers = self._core["raylet"].children(recursive=True)
        return gone

    def kill(self) -> None:
        """See ``Ray``; the workers go as well."""
        for process in (*self._workers, *self._started):
            with suppress(psutil.Error):
                process.kill()


def is_alive(process: psutil.Process) -> bool:
    """Say whether a process runs; one that has ended, and that nobody has waited for yet, does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        # It ended between the two questions.
        return False


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

    def finish(self, ray: Ray, abandon: Callable[[], None], is_told: Callable[[], bool] = lambda: False) -> list[str]:
        """Start the work and wait for its end, for the end of Ray, or for a signal.

        A Ray of our own is killed as soon as a signal has come: nothing that counts is in Ray, for an epoch counts once
        its checkpoint and its record are written. Whoever signals this process may have signalled the processes of Ray
        as well (``timeout``, systemd), and a Ray that ends in its own way ends this process, too, without a word.

        Args:
            ray: What it calls.
            abandon: Called before this returns or raises while the work goes on, which nobody can keep from doing so.
            is_told: Says whether a signal has told this process to end.

        Returns:
            What of Ray is gone, so that the work is left undone; of a Ray of our own nothing runs any more then. Empty
            where the work is done.

        Raises:
            BaseException: What the work raised, or a signal's handler.
        """
        self.start()
        try:
            lost: list[str] = []
            while self.is_alive() and not lost:
                self.join(LOOK_SECONDS)
                lost = ray.lost()
                if not lost and ray.is_ours and is_told():
                    lost = ["a signal ends it"]
        finally:
            if self.is_alive():
                abandon()
        if self._error is not None and not lost:
            # What it raised may be what a Ray makes of its own death, between two looks at its processes.
            lost = ray.lost()
        if self._error is None and not self.is_alive():
            return []
        if lost:
            if not is_told():
                time.sleep(GRACE_SECONDS)
            ray.kill()
        elif self._error is not None:
            raise self._error
        return lost
