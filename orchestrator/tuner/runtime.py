"""Joining a Ray cluster or starting a Ray of our own, watching the processes of Ray, and leaving it.

When Ray's control store (GCS) or node manager (raylet) dies, a call of Ray blocks for up to a minute and cannot be
interrupted. Then Ray ends this process without a message of ours. Calls of Ray therefore run in a thread of their own
(``run_watched``). The main thread watches the processes of Ray (``OwnRay``) or the head of a cluster (``JoinedRay``),
handles signals, and can end the search in order.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

import ray
from ray.exceptions import AuthenticationError

import orchestrator
import search_spaces
import trainables
from orchestrator.machines.cluster import ClusterError
from orchestrator.machines.processes import kept_sigterm_handler
from orchestrator.text.values import duration_text
from orchestrator.tuner.own_ray import LOOK_SECONDS, OwnRay, started_ray
from trainables.errors import UserError, reason_of

CONNECT_SECONDS = 1.0
"""Seconds to wait for the head to take a connection."""

ASK_SECONDS = 5.0
"""Seconds between two attempts to reach the head of a cluster."""

SILENT_SECONDS = 40.0
"""Seconds for which the head of a cluster may be out of reach; after 60 s Ray itself ends this process."""

GRACE_SECONDS = 1.0
"""Seconds to wait for a signal after Ray has died: the process that ended Ray may be about to signal this process."""


class RayLostError(UserError):
    """A process of Ray died; the journal and the checkpoints are whole.

    ``place`` was being written; ``lost`` parts of Ray are gone, at some ``cost`` to the user, in words for people.
    """

    exit_code = 1
    # A call of Ray that waits for a head which is gone ends the process as soon as another head answers at its address.
    ends_at_once = True

    def __init__(self, place: Path, lost: Sequence[str], cost: str) -> None:
        super().__init__(
            f"{place}: Ray is gone ({', '.join(lost)}): somebody ended it, or the memory of the machine was short; "
            f"{cost}: resume with the same command"
        )


class JoinedRay:
    """A Ray that another process started, and that is left running.

    Its head is watched by one TCP connection at a time, over which nothing is sent. The operating system of the head
    closes the connection when the control store ends. A head that falls silent, e.g. because a cable is cut, leaves the
    connection open. The control store itself closes idle connections, so the connection is renewed every few seconds.

    A head whose control store ends and refuses connections is gone for good. A head that is started again is another
    cluster: Ray's driver library ends this process, without a message of ours, as soon as it meets that cluster.

    ``address`` is ``host:port`` of the head; ``None`` if the caller watches over Ray.
    """

    is_ours = False

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._connection: socket.socket | None = None
        self._has_ended = False
        self._asked_at = -ASK_SECONDS
        self._answered_at = time.monotonic()

    def lost(self) -> list[str]:
        """Return the head, if it has ended, or has been out of reach for longer than ``SILENT_SECONDS``."""
        if self._address is None:
            return []
        was_closed = self._is_closed()
        if was_closed or time.monotonic() - self._asked_at >= ASK_SECONDS:
            problem = self._connect(self._address)
            self._asked_at = time.monotonic()
            self._answered_at = self._asked_at if problem is None else self._answered_at
            self._has_ended |= was_closed and isinstance(problem, ConnectionRefusedError)
        if self._has_ended:
            return [f"its head at {self._address} has ended"]
        silent = time.monotonic() - self._answered_at
        words = f"its head at {self._address} has not answered for {duration_text(silent)}"
        return [words] if silent > SILENT_SECONDS else []

    def kill(self) -> None:
        """Kill nothing: other processes use this Ray."""

    def _connect(self, address: str) -> OSError | None:
        """Connect anew; return the error if the head takes no connection, else ``None``."""
        if self._connection is not None:
            self._connection.close()
        host, _, port = address.rpartition(":")
        try:
            self._connection = socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS)
        except OSError as error:
            self._connection = None
            return error
        self._connection.setblocking(False)
        return None

    def _is_closed(self) -> bool:
        """Say whether the head has closed the connection; ``False`` without a connection."""
        if self._connection is None:
            return False
        try:
            # The control store sends bytes first, which are dropped.
            while self._connection.recv(4096):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


Ray = JoinedRay | OwnRay
"""The Ray that some work calls."""


def run_watched(
    work: Callable[[], None], ray: Ray, abandon: Callable[[], None], is_told: Callable[[], bool] = lambda: False
) -> list[str]:
    """Do work that calls Ray in a daemon thread; wait for its end, for the end of Ray, or for a signal.

    A Ray of our own is killed as soon as a signal has come. Nothing that counts is in Ray, for an epoch counts once its
    checkpoint and its record are written. The signal may have gone to the processes of Ray as well (``timeout``,
    systemd). A Ray that ends by itself ends this process, too, without a message.

    Args:
        work: The work; its thread does not keep the process from ending.
        ray: The Ray that the work calls.
        abandon: Called if this function ends while the thread, which cannot be stopped, still works; has to keep it
            from writing anything more.
        is_told: Returns whether a signal has asked this process to end.

    Returns:
        The parts of Ray that are gone: the work is then unfinished, and a Ray of our own was killed. Empty if the work
        is done.

    Raises:
        BaseException: The exception that the work, or the handler of a signal, raised.
    """
    outcome: Future[None] = Future()

    def settle() -> None:
        try:
            work()
            outcome.set_result(None)
        except BaseException as error:  # noqa: BLE001  # raised below
            outcome.set_exception(error)

    threading.Thread(target=settle, name="ray work", daemon=True).start()
    lost: list[str] = []
    try:
        while not outcome.done() and not lost:
            wait([outcome], LOOK_SECONDS)
            lost = ray.lost()
            if not lost and ray.is_ours and is_told():
                lost = ["a signal ends it"]
    finally:
        if not outcome.done():
            abandon()
    error = outcome.exception() if outcome.done() else None
    if outcome.done() and error is None:
        return []
    # An error may be the first sign that Ray has died since the last look at its processes.
    lost = lost or ray.lost()
    if lost:
        if not is_told():
            time.sleep(GRACE_SECONDS)
        ray.kill()
    elif error is not None:
        raise error
    return lost


NO_GPU_MEANS_NONE = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
"""Variable by which a process that asked Ray for no GPU sees none; also passed to nodes that were started before."""

LEAVING = "leaving Ray"
"""Name of the thread that leaves a Ray whose head is gone; until it ends, this process can join no other Ray."""


@contextmanager
def ray_runtime(scratch: Path, address: str | None = None) -> Iterator[Ray]:
    """Start a Ray of our own on this machine and end it, or join a cluster and leave it.

    A Ray that the process has already started or joined is used as it is. Signals are handled as before. The
    ``with`` block gets an object that notices whether Ray is gone.

    Raises:
        ClusterError: If the cluster cannot be joined, or Ray cannot be started.
        RayNotStartedError: If a process of Ray died while Ray started.
    """
    for thread in threading.enumerate():
        if thread.name == LEAVING:
            thread.join()
    if ray.is_initialized():
        yield JoinedRay()
        return
    for name in ("ray", "ray.tune", "ray.data", "ray.train"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if address is None:
        with started_ray(scratch) as own:
            yield own
        return
    joined = None
    try:
        with kept_sigterm_handler():
            _join(address)
        joined = JoinedRay(address)
        yield joined
    finally:
        if joined is not None and joined.lost():
            # Ray asks a head that is gone for five seconds. If another head starts at its address meanwhile, Ray ends
            # this process, which would not have said anything yet.
            threading.Thread(target=ray.shutdown, name=LEAVING, daemon=True).start()
        else:
            ray.shutdown()


def _join(address: str) -> None:
    """Join a cluster, whose nodes get the code that runs here."""
    modules = [str(Path(module.__file__ or "").parent) for module in (orchestrator, search_spaces, trainables)]
    try:
        ray.init(
            address=address,
            configure_logging=False,
            log_to_driver=False,
            runtime_env={
                "py_modules": modules,
                "excludes": ["__pycache__"],
                "env_vars": {NO_GPU_MEANS_NONE: os.environ[NO_GPU_MEANS_NONE]},
            },
        )
    except (AuthenticationError, ConnectionError, RuntimeError) as error:
        if _is_unauthenticated(error):
            raise ClusterError(
                f"--address {address}: refuses our token, or wants one: copy ~/.ray/auth_token (or the file "
                f"that RAY_AUTH_TOKEN_PATH names there) from its head to this machine, and set RAY_AUTH_MODE=token"
            ) from None
        raise ClusterError(
            f"--address {address}: cannot be joined: {reason_of(error)}; is this machine a node of the "
            f"cluster? `ray start --address={address} --num-cpus=0` makes it a node that runs no trials"
        ) from None


def _is_unauthenticated(error: BaseException | None) -> bool:
    """Say whether an error, or its cause, is about a token."""
    while error is not None:
        if isinstance(error, AuthenticationError) or "AuthenticationError" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
