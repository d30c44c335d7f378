"""Starting Ray on this machine, or joining a Ray cluster, and leaving it."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import psutil
import ray
from ray.exceptions import AuthenticationError

import orchestrator
import search_spaces
import trainables
from orchestrator.machines.cluster import ClusterError
from orchestrator.machines.processes import kept_sigterm_handler
from orchestrator.tuner.ray_watch import JoinedRay, OwnRay, Ray

NO_GPU_MEANS_NONE = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
"""Variable by which a process that asked Ray for no GPU sees none; also passed to nodes that were started before."""


OBJECT_STORE_BYTES = 100 * 2**20
"""Bytes of Ray's object store, in which results are small; by default Ray takes a third of the machine's memory."""


@contextmanager
def ray_runtime(scratch: Path, address: str | None = None) -> Iterator[Ray]:
    """Start a Ray of our own on this machine and end it, or join a cluster and leave it.

    A Ray that the process has already started or joined is used as it is. Signals are handled as before. The
    ``with`` block gets an object that tells whether Ray is gone.

    Raises:
        ClusterError: If the cluster cannot be joined, or Ray cannot be started.
    """
    if ray.is_initialized():
        yield JoinedRay()
        return
    for name in ("ray", "ray.tune", "ray.data", "ray.train"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    before = set(psutil.Process().children())
    try:
        with kept_sigterm_handler():
            if address is None:
                _start(scratch)
            else:
                _join(address)
        started = [process for process in psutil.Process().children() if process not in before]
        yield OwnRay(started) if address is None else JoinedRay(address)
    finally:
        ray.shutdown()


def _start(scratch: Path) -> None:
    with _Startup():
        ray.init(
            address="local",
            include_dashboard=False,
            configure_logging=False,
            log_to_driver=False,
            object_store_memory=OBJECT_STORE_BYTES,
            # Ray opens its folder to all users, while a scratch directory must be closed to prove that it is ours.
            _temp_dir=str(scratch / "r"),
        )


class _Startup:
    """Turns errors of Ray's start into errors of ours."""

    def __enter__(self) -> None:
        """Begin to watch for errors."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Turn Ray's error into an error of ours; Ray reports a node that is slow to start as a bare ``Exception``."""
        if kind is not Exception and not isinstance(error, ConnectionError | RuntimeError | TimeoutError):
            return
        reason = str(error).splitlines()[0]
        raise ClusterError(
            f"Ray did not start on this machine: {reason}; where the machine was too busy, run the same command again: "
            f"nothing is lost"
        ) from None


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
            f"--address {address}: cannot be joined: {str(error).splitlines()[0]}; is this machine a node of the "
            f"cluster? `ray start --address={address} --num-cpus=0` makes it a node that runs no trials"
        ) from None


def _is_unauthenticated(error: BaseException | None) -> bool:
    """Say whether an error, or its cause, is about a token."""
    while error is not None:
        if isinstance(error, AuthenticationError) or "AuthenticationError" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
