"""A Ray of our own on this machine: its start with a token that nobody else has, its processes and its end.

Ray's processes listen on all interfaces of the machine and run what they are sent, so every call needs a token. Ray
would write one token for all its clusters into a file of the home directory, with the umask of the day. Here each Ray
gets a random token, which only the environment of its own processes holds.
"""

import atexit
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from ray import _raylet
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from orchestrator.machines.cluster import ClusterError
from orchestrator.machines.own_machine import OBJECT_STORE_BYTES, store_folder
from orchestrator.machines.processes import kept_sigterm_handler
from trainables.allotment import usable_cpus
from trainables.errors import reason_of

CORE = {"gcs_server": "its control store gcs_server died", "raylet": "its node manager raylet died"}
"""The processes without which Ray cannot work: name -> message to the user when the process is gone."""

LOOK_SECONDS = 0.2
"""Seconds between two looks at the processes of Ray."""

NOTE_SECONDS = 2.0
"""Seconds between two notes of Ray's workers: psutil reads every process of the machine to find them."""

STARTS = 3
"""Times that Ray is started where the machine is busy: Ray gives its own processes 30 s to start, and then gives up."""


class RayNotStartedError(ClusterError):
    """A process of Ray died while Ray started: the call that waits for it would end this process a minute later."""

    exit_code = 1
    ends_at_once = True


class OwnRay:
    """A Ray that this process has started, so that no other uses it; ``ray.init`` has started ``processes``."""

    is_ours = True

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self._started = processes
        self._core = {name: process for process in processes if (name := process.name()) in CORE}
        self._workers: list[psutil.Process] = []
        self._noted_at = -NOTE_SECONDS

    def lost(self) -> list[str]:
        """Return which of the processes in ``CORE`` have ended."""
        gone = [CORE[name] for name, process in self._core.items() if not is_alive(process)]
        if self._core and not gone and time.monotonic() - self._noted_at >= NOTE_SECONDS:
            # The workers are noted while the raylet lives: of a dead raylet nothing says which were its workers. A
            # worker that is younger than the last note ends by itself, once its raylet has.
            self._noted_at = time.monotonic()
            with suppress(psutil.Error):
                workers = self._core["raylet"].children(recursive=True)
                # A raylet that died during the call had no children left; the workers known before are kept.
                if is_alive(self._core["raylet"]):
                    self._workers = workers
        return gone

    def kill(self) -> None:
        """Kill the processes of Ray and the workers that they had at the last look."""
        for process in (*self._workers, *self._started):
            with suppress(psutil.Error):
                process.kill()


def is_alive(process: psutil.Process) -> bool:
    """Say whether a process runs; a zombie, which has ended but was not waited for, does not run."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        # The process ended between the two calls.
        return False


@contextmanager
def own_token() -> Iterator[None]:
    """Let Ray that is started in a ``with`` block ask for a random token, and forget the token afterwards.

    A setting of the user's, which is meant for a cluster of several machines, does not count for this Ray.
    """
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    former = {name: os.environ.get(name) for name in own}
    os.environ |= own
    _read_settings()
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _read_settings()


def _read_settings() -> None:
    """Let the library of Ray read the environment again, which it reads once by itself."""
    library: Any = _raylet
    library.AuthenticationTokenLoader.instance().reset_cache()
    library.Config.initialize("")


@contextmanager
def started_ray(scratch: Path) -> Iterator[OwnRay]:
    """Start a Ray of our own, and end it after a ``with`` block.

    Args:
        scratch: A directory that only this user can enter, with a short path, because Ray makes sockets below it.

    Raises:
        ClusterError: If Ray cannot be started.
        RayNotStartedError: If one of the processes in ``CORE`` died while Ray started.
    """
    with own_token():
        start = _Start(scratch)
        try:
            # Ray's library takes SIGTERM for itself.
            with kept_sigterm_handler():
                ours = start.run()
            yield ours
        finally:
            start.end()


class _Start:
    """Starts Ray in a thread that can be left behind: a call of Ray for processes that died lasts for a minute."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._before = set(psutil.Process().children())
        self._core: dict[str, psutil.Process] = {}
        # A start that has not begun is over.
        self._outcome: Future[None] = Future()
        self._outcome.set_result(None)
        self._has_ended = threading.Event()

    def run(self) -> OwnRay:
        """Start Ray, and again where the machine is busy."""
        busy = retry_if_exception(lambda error: "timed out" in str(error).lower())
        try:
            for attempt in Retrying(stop=stop_after_attempt(STARTS), retry=busy, reraise=True):
                with attempt:
                    # The processes of a start that failed would go on, and keep the machine busy.
                    self._kill()
                    self._try()
        except RayNotStartedError:
            raise
        except Exception as error:
            # Ray reports a node that is slow to start as a bare ``Exception``.
            if type(error) is not Exception and not isinstance(error, ConnectionError | RuntimeError | TimeoutError):
                raise
            raise ClusterError(
                f"Ray did not start on this machine: {reason_of(error)}; where the machine was too busy, run the same "
                f"command again: nothing is lost"
            ) from None
        return OwnRay(self._processes())

    def end(self) -> None:
        """End Ray, after its start, which a signal may have interrupted; leave a start behind that cannot end."""
        try:
            if self._is_over():
                ray.shutdown()
                return
        finally:
            self._has_ended.set()
        self._kill()
        # It would wait for the end of the start.
        atexit.unregister(ray.shutdown)

    def _try(self) -> None:
        self._core, outcome = {}, Future[None]()
        # The thread lives as long as Ray: the kernel ends Ray's processes with the thread that has started them.
        threading.Thread(target=self._init, args=[outcome], name="start of ray", daemon=True).start()
        # Known once it runs: nothing waits for the end of a start whose thread the machine refused.
        self._outcome = outcome
        if self._is_over():
            self._outcome.result()
            return
        raise RayNotStartedError(
            f"Ray did not start on this machine: {', '.join(self._died())}: somebody ended it, or the machine was too "
            f"busy or short of memory; nothing is lost: run the same command again"
        )

    def _init(self, outcome: Future[None]) -> None:
        try:
            ray.init(
                address="local",
                # Ray would count the processors of the machine, or those of the outermost group alone.
                num_cpus=None if "RAY_OVERRIDE_RESOURCES" in os.environ else usable_cpus(),
                include_dashboard=False,
                configure_logging=False,
                log_to_driver=False,
                object_store_memory=OBJECT_STORE_BYTES,
                # Ray opens its folder to all users, while a scratch directory must be closed to prove that it is ours.
                _temp_dir=str(self._scratch / "r"),
                _plasma_directory=store_folder(self._scratch),
            )
        except BaseException as error:  # noqa: BLE001  # raised in `run`
            outcome.set_exception(error)
            return
        outcome.set_result(None)
        self._has_ended.wait()

    def _is_over(self) -> bool:
        """Wait for the end of the start; ``False`` if a process that it waits for has died."""
        while not wait([self._outcome], LOOK_SECONDS).done:
            for process in self._processes():
                with suppress(psutil.NoSuchProcess):
                    if (name := process.name()) in CORE:
                        self._core.setdefault(name, process)
            if self._died():
                return False
        return True

    def _died(self) -> list[str]:
        return [CORE[name] for name, process in self._core.items() if not is_alive(process)]

    def _processes(self) -> list[psutil.Process]:
        return [process for process in psutil.Process().children() if process not in self._before]

    def _kill(self) -> None:
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait()
