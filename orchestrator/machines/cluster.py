"""Which machines a search runs on: this machine alone, or the machines of a Ray cluster that runs already.

A cluster is checked before Ray is imported, because the import takes seconds and reads the settings once. Its machines
(``Node``) say whether one of them has the CPUs and GPUs that a trial asks for.
"""

import os
import platform
import stat
import subprocess
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orchestrator
from orchestrator.environment import set_for_cluster
from orchestrator.storage.bucket import ObjectStore, StorageError, connection_problem, is_bucket
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.storage.stores import BucketStore, FolderStore
from trainables.allotment import usable_cpus
from trainables.errors import ConfigError
from trainables.files import make_writable

REVISION = "ORCHESTRATOR_REVISION"
"""Environment variable that names the commit of code outside a repository, such as the code in an image."""

PACKAGES = ("icr-orchestrator", "torch", "numpy", "ray", "optuna", "mlflow")


def describe_environment() -> dict[str, Any]:
    """Return versions of Python and packages, the git revision of the code, and a description of the machine."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "versions": versions,
        "git_revision": git_revision(),
        "machine": {"host": platform.node(), "system": platform.platform(), "cpus": usable_cpus()},
    }


def git_revision() -> str | None:
    """Return the commit of the code, with ``-dirty`` where files differ from it; ``None`` where it is unknown."""
    root = Path(orchestrator.__file__ or "").resolve().parent.parent
    if not (root / ".git").exists():
        return os.environ.get(REVISION) or None
    command = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


WAITING = "ICR_WAITING_TRIALS"
"""Environment variable: how many trials wait for room, at which an autoscaler sees how many nodes are wanted."""


class ClusterError(ConfigError):
    """A cluster that cannot be joined."""


@dataclass(frozen=True)
class Cluster:
    """Where a search runs, and where it keeps the checkpoints.

    Attributes:
        address: ``host:port`` of the head of a Ray cluster, or ``auto`` for the cluster of this machine; ``None``
            starts a Ray of our own here.
        storage: Folder or ``s3://bucket/prefix`` of the checkpoints; ``None`` is the experiment's own folder.
        waiting: How many trials wait though there is no room for them, >= 1. A waiting trial was suggested without
            the results of the running trials, so one trial waits, unless an autoscaler is to see more.
    """

    address: str | None = None
    storage: str | None = None
    waiting: int = 1

    def resolved(self) -> "Cluster":
        """Return the cluster with its head and its storage looked up and found to answer; nothing is started.

        Raises:
            ClusterError: If nothing listens at the address, or a variable of the environment is no number.
            StorageError: If the storage cannot be written.
        """
        waiting = count_waiting()
        address = None if self.address is None else find_head(self.address)
        bucket, storage = self._bucket, self.storage
        if bucket is not None:
            bucket.check()
            storage = bucket.address
        elif storage is not None:
            storage = str(Path(storage).resolve())
        return Cluster(address, storage, waiting)

    @property
    def place(self) -> object:
        """The place of the checkpoints, equal for equal places, whatever region or other way leads there."""
        bucket = self._bucket
        return self.storage if bucket is None else (bucket.bucket, bucket.prefix, bucket.endpoint)

    def below(self, name: str) -> "Cluster":
        """Return the cluster with a folder of its storage, if it has one, as storage."""
        if bucket := self._bucket:
            return replace(self, storage=bucket.below(name).address)
        return self if self.storage is None else replace(self, storage=str(Path(self.storage) / name))

    def checkpoints(self, directory: Path) -> Checkpoints:
        """Return the checkpoints of an experiment, given its directory; only for a cluster that is ``resolved``.

        Raises:
            StorageError: If the folder cannot be written.
            AlreadyRunningError: If another driver, which may be alive, has claimed the checkpoints in the bucket.
        """
        if bucket := self._bucket:
            return BucketStore.claimed(bucket.below(f"{directory.name}/trials"), directory)
        trials = (directory if self.storage is None else Path(self.storage) / directory.name) / "trials"
        try:
            make_writable(trials)
            trials.parent.chmod(0o700)
        except OSError as error:
            raise StorageError(f"--storage {trials}: cannot be written: {error.strerror}; choose another") from None
        return FolderStore.claimed(trials)

    @property
    def _bucket(self) -> ObjectStore | None:
        return ObjectStore.parse(self.storage) if self.storage is not None and is_bucket(self.storage) else None


def find_head(address: str, environ: MutableMapping[str, str] = os.environ) -> str:
    """Return ``host:port`` of a cluster's head after making sure that something listens there.

    Raises:
        ClusterError: If nothing listens there; the message has the remedy.
    """
    named = _current_head(environ) if address == "auto" else address
    if "://" in named:
        raise ClusterError(
            f"--address {named}: Ray's client would move the journal to the head; make this machine a node "
            f"(ray start --address=HOST:6379 --num-cpus=0) and give --address HOST:6379"
        )
    host, _, port = named.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"--address {named}: must be host:port, e.g. 10.0.0.1:6379, or auto")
    if problem := connection_problem(host.strip("[]"), int(port)):
        raise ClusterError(
            f"--address {named}: no Ray cluster answers: {problem}; start its head with `ray start --head`, and "
            f"join this machine to it, or leave out --address to use this machine alone"
        )
    return named


def count_waiting(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many trials are to wait for room, from the environment; by default 1.

    Raises:
        ClusterError: If the environment has no whole number of at least 1.
    """
    said = environ.get(WAITING) or "1"
    if not said.isdecimal() or int(said) < 1:
        raise ClusterError(f"{WAITING}={said}: must be a whole number of at least 1, or not be set")
    return int(said)


def prepare_joining(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables that Ray reads when a process that will join a cluster imports it.

    Raises:
        ClusterError: If the environment asks for a token, and there is none.
    """
    token = token_path(environ)
    there = bool(environ.get("RAY_AUTH_TOKEN")) or token.is_file()
    set_for_cluster(there, environ)
    if not there and environ.get("RAY_AUTH_MODE", "").lower() == "token":
        raise ClusterError(
            f"RAY_AUTH_MODE=token, but there is no token: copy the token of the cluster's head to {token}, "
            f"or set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        )


def token_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file in which Ray looks for the token of a cluster."""
    return Path(environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")


def readers_of_token(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the permissions of a token's file that other users can read or replace; ``None`` if they cannot."""
    path = token_path(environ)
    try:
        modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (path, *path.absolute().parents)]
    except OSError:
        return None
    is_open = modes[0] & 0o066 and all(mode & 0o011 for mode in modes[1:])
    return f"{path} ({stat.filemode(modes[0])[1:]})" if is_open else None


def ignored_address(cluster: Cluster, environ: MutableMapping[str, str] = os.environ) -> str | None:
    """Return a sentence for a person whose environment names a cluster that is not joined, else ``None``."""
    named = environ.get("RAY_ADDRESS")
    if cluster.address is not None or not named:
        return None
    return f"RAY_ADDRESS={named} is not used: a Ray of our own starts on this machine; join with --address auto"


def _current_head(environ: MutableMapping[str, str]) -> str:
    if environ.get("RAY_ADDRESS"):
        return environ["RAY_ADDRESS"]
    written = Path(environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
    try:
        return written.read_text(encoding="utf-8").strip()
    except OSError:
        raise ClusterError(
            "--address auto: this machine is in no Ray cluster; name one (--address host:port), "
            "start one (`ray start --head`), or leave out --address to run on this machine alone"
        ) from None


@dataclass(frozen=True)
class StartOptions:
    """The options that every start of an experiment has, whatever command starts it.

    Attributes:
        data_root: Folder that holds the datasets, or ``s3://bucket/prefix``.
        output: Folder under which everything is written; the experiment gets a folder of its own there.
        tracking_uri: MLflow's store; by default a database under ``output``.
    """

    data_root: str = "data"
    output: Path = Path("runs")
    tracking_uri: str | None = None
    cluster: Cluster = Cluster()
    quiet: bool = False


@dataclass(frozen=True)
class Node:
    """One machine, with all CPUs and GPUs that Ray counts on it, taken or not, >= 0."""

    name: str
    cpus: float
    gpus: float


def alive(described: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return the machines that are alive, from the output of ``ray.nodes``."""
    return [
        Node(node["NodeManagerHostname"], node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
        for node in described
        if node["Alive"]
    ]


def total(nodes: Iterable[Node]) -> dict[str, float]:
    """Return ``CPU`` and ``GPU`` of all machines together."""
    nodes = list(nodes)
    return {"CPU": sum(node.cpus for node in nodes), "GPU": sum(node.gpus for node in nodes)}


def check_fits(cpus: float, gpus: float, nodes: Sequence[Node]) -> None:
    """Refuse a trial that fits on none of the machines, at least one: Ray would silently wait for ever.

    Raises:
        ConfigError: If the trial fits on no machine; the message names the largest machine.
    """
    if any(node.cpus >= cpus and node.gpus >= gpus for node in nodes):
        return
    # A machine without enough GPUs cannot run the trial, however many CPUs it has.
    largest = max(nodes, key=lambda node: (min(node.gpus, gpus), node.cpus, node.gpus))
    key = "gpus" if largest.gpus < gpus else "cpus"
    asked = f"{cpus:g} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
    raise ConfigError(
        f"resources.{key}: a trial asks for {asked} of one machine, but the largest, {largest.name}, has "
        f"{largest.cpus:g} CPUs and {largest.gpus:g} GPUs; lower it with --set resources.{key}=..."
    )
