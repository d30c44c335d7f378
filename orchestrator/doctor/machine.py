"""Checks whether a machine can run searches: each check says ok, warn or fail, and gives the remedy."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil

from orchestrator.machines.cluster import Cluster, readers_of_token, token_path
from orchestrator.machines.own_machine import want_of_files, want_of_shared_memory
from orchestrator.storage.bucket import ObjectStore, StorageError, is_bucket
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import typed_program
from orchestrator.text.wording import number_text
from orchestrator.tracking.address import PORT, choose_uri, free_port
from orchestrator.tracking.connection import StoreFailedError, StoreMovedError, count_experiments
from trainables.allotment import usable_cpus, usable_files, usable_memory, usable_shared_memory
from trainables.errors import ConfigError, UserError
from trainables.extras import EXTRAS, is_installed, missing_modules

TORCH_PAIRS = {"2.15": "0.29", "2.14": "0.28", "2.13": "0.28", "2.12": "0.27", "2.11": "0.26"}
"""The torchvision release that fits each torch release; any other pair fails at import or at the first operator."""

LITTLE_DISK = 10 * 2**30


@dataclass(frozen=True)
class Check:
    """Result of a check.

    Attributes:
        state: ``ok``, ``warn`` (works, with a reservation) or ``fail`` (does not work).
        way_out: Advice to the user; empty if nothing is to be done.
        mend: Makes a broken rule hold again and returns what it did, for people; raises ``OSError`` where that fails.
            ``None`` where a person has to decide.
        hides: Whether the broken rule keeps others from being found.
    """

    check: str
    state: Literal["ok", "warn", "fail"]
    found: str
    way_out: str = ""
    mend: Callable[[], str] | None = field(default=None, compare=False)
    hides: bool = field(default=False, compare=False)

    def to_dict(self) -> dict[str, str]:
        """Return plain values for ``--json``."""
        return {"check": self.check, "state": self.state, "found": self.found, "way_out": self.way_out}


def examine(data_root: str, output: Path, tracking_uri: str | None, cluster: Cluster = Cluster()) -> list[Check]:
    """Run every check; no check leaves a file behind."""
    checks = [check_python(), check_packages(), check_torch_pair(), check_gpu(), check_disk(output), check_memory()]
    checks += [
        check_files(),
        check_shared_memory(),
        check_port(),
        check_token(),
        check_data_root(data_root),
        check_output(output),
        check_store(output, tracking_uri),
    ]
    if cluster.address is not None:
        checks.append(check_answers("cluster", Cluster(address=cluster.address)))
    if cluster.storage is not None:
        checks.append(check_answers("storage", Cluster(storage=cluster.storage)))
    return checks


def refused(check: str, error: Exception, separator: str = "; ") -> Check:
    """Return the finding of a refusal, whose message is the reason and then the remedy."""
    reason, _, remedy = str(error).partition(separator)
    return Check(check, "fail", reason, remedy)


def check_answers(check: str, cluster: Cluster) -> Check:
    """The head of a cluster listens, or a storage can be written."""
    try:
        endpoint = cluster.resolved()
    except UserError as error:
        finding = refused(check, error)
        return replace(finding, way_out=finding.way_out or "look at --address and --storage")
    return Check(check, "ok", f"{endpoint.address or endpoint.storage} answers")


def check_python() -> Check:
    """Python is 3.11 to 3.13."""
    release = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("python", "ok", release)
    return Check("python", "fail", release, "make PYTHON=python3.12 install")


RARE = ("server", "sentences", "tensorboard", "wandb", "video")
"""Extras that `check_packages` does not miss, because most machines can do without these extras."""


def check_packages() -> Check:
    """The extras that the commands of a single machine need are installed.

    A missing extra is a warning only: a machine that trains or serves needs fewer extras than a machine that searches.
    """
    lacking = [extra for extra in EXTRAS if extra not in RARE and not is_installed(extra)]
    if lacking:
        problem = f"extras that are not installed: {', '.join(lacking)}"
        remedy = f"where their commands are wanted: pip install 'icr-orchestrator[{','.join(lacking)}]'"
        return Check("packages", "warn", problem, remedy)
    return Check("packages", "ok", ", ".join(f"{name} {version(name)}" for name in ("ray", "optuna", "mlflow")))


def check_torch_pair() -> Check:
    """The installed releases of torch and torchvision fit each other."""
    try:
        torch, vision = version("torch"), version("torchvision")
    except PackageNotFoundError as error:
        if error.name == "torchvision":
            return Check("torch pair", "ok", f"torch {version('torch')} alone")
        return Check("torch pair", "fail", str(error), "make install")
    pair = f"torch {torch} with torchvision {vision}"
    wanted = TORCH_PAIRS.get(".".join(torch.split(".")[:2]))
    if wanted is None:
        return Check("torch pair", "warn", f"{pair}: not a pair that was tried", "make install takes one that was")
    if not vision.startswith(f"{wanted}."):
        return Check("torch pair", "fail", pair, f"pip install 'torchvision=={wanted}.*'")
    return Check("torch pair", "ok", pair)


def check_gpu() -> Check:
    """Torch can use the GPU that the driver shows.

    A separate process asks torch, because the import of torch takes seconds and memory, and can fail.
    """
    code = "import torch; print(torch.cuda.device_count(), torch.version.cuda, *(torch.cuda.get_device_name(i) "
    code += "for i in range(torch.cuda.device_count())), sep='|')"
    try:
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return Check("gpu", "fail", "torch did not answer within 120 s", "look at nvidia-smi")
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return Check("gpu", "fail", f"torch does not import: {last}", "make install")
    count, cuda, *names = result.stdout.strip().split("|")
    if count != "0":
        return Check("gpu", "ok", f"{', '.join(names)} (CUDA {cuda})")
    if shutil.which("nvidia-smi") and Path("/dev/nvidiactl").exists():
        problem = f"there is a GPU, but torch (CUDA {cuda}) cannot use it"
        return Check("gpu", "warn", problem, "install a driver for this CUDA, or a torch for the driver's CUDA")
    return Check("gpu", "ok", "none; trainings run on the CPU")


def _existing(output: Path) -> Path:
    return next(path for path in (output.resolve(), *output.resolve().parents) if path.exists())


def check_disk(output: Path) -> Check:
    """The output folder's disk has room for checkpoints."""
    place = _existing(output)
    free = shutil.disk_usage(place).free
    space = f"{number_text(free / 2**30, decimals=0)} GiB free at {place}"
    if free < LITTLE_DISK:
        return Check("disk", "warn", space, "checkpoints take up to 0.5 GiB a trial: choose another --output")
    return Check("disk", "ok", space)


def check_memory() -> Check:
    """The machine has memory for the actors that train trials."""
    free, cpus = usable_memory(psutil.virtual_memory().available), usable_cpus()
    memory = f"{number_text(free / 2**30)} GiB available, {cpus} CPUs"
    if free < cpus * 2**30:
        return Check("memory", "warn", memory, "an actor takes 0.4 to 0.7 GiB: limit resources.max_concurrent")
    return Check("memory", "ok", memory)


def check_files() -> Check:
    """This process may open the files of a search with a trial for each CPU."""
    if problem := want_of_files(usable_cpus()):
        return Check("open files", "fail", *problem)
    limit = usable_files()
    return Check("open files", "ok", "no limit" if limit is None else f"at most {limit}")


def check_shared_memory() -> Check:
    """Ray's object store has room in shared memory."""
    if problem := want_of_shared_memory():
        return Check("shared memory", "warn", *problem)
    free = usable_shared_memory()
    return Check("shared memory", "ok", "not used" if free is None else f"{number_text(free / 2**30)} GiB free")


def check_port(port: int = PORT) -> Check:
    """The port of ``orchestrator ui`` is free."""
    try:
        free_port(port)
    except OSError as error:
        problem = f"{port} for `orchestrator ui`: {error.strerror}"
        return Check("port", "warn", problem, "the command takes another free port; or choose a port with --port")
    return Check("port", "ok", f"{port} for `orchestrator ui` is free")


def check_token() -> Check:
    """Other users cannot read the token of a Ray cluster."""
    if (readable := readers_of_token()) is None:
        return Check("token", "ok", "no other user can read a token of Ray")
    problem = f"other users can read {readable}, and so run programs as you in a cluster with this token"
    remedy = (
        f"chmod 0600 {shlex.quote(str(token_path()))}, and give the cluster a new token if strangers use this machine"
    )
    return Check("token", "fail", problem, remedy)


def check_data_root(data_root: str) -> Check:
    """The data root, a folder or a bucket, holds datasets."""
    remedy = f"{typed_program()} data generate scenes --images 2000 --seed 0 --out data/scenes, or --data-root FOLDER"
    try:
        if is_bucket(data_root):
            remedy = "copy the folders of the datasets into the bucket, or name another bucket with --data-root"
            names = ObjectStore.parse(data_root).folders()
        elif Path(data_root).is_dir():
            names = sorted(path.name for path in Path(data_root).iterdir() if path.is_dir())
        else:
            return Check("data root", "warn", f"{data_root} is no folder", remedy)
    except (StorageError, OSError) as error:
        return Check("data root", "fail", str(error), remedy)
    if not names:
        return Check("data root", "warn", f"{data_root} holds no dataset", remedy)
    return Check("data root", "ok", f"{data_root}: {', '.join(names)}")


def check_output(output: Path) -> Check:
    """A search can write into the output folder."""
    place = _existing(output)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Check("output", "ok", f"{output} can be written")
    return Check("output", "fail", f"{output}: {place} cannot be written", "choose another --output")


def check_store(output: Path, tracking_uri: str | None) -> Check:
    """The MLflow store answers."""
    if missing_modules("mlflow"):
        return Check("store", "ok", "none: MLflow is not installed; searches keep their journals alone")

    if tracking_uri is None and not (output / "mlflow.db").is_file():
        return Check("store", "ok", f"{output / 'mlflow.db'} will be made by the first search")
    try:
        uri = choose_uri(tracking_uri, output)
        return Check("store", "ok", f"{without_password(uri)}: {count_experiments(uri)} experiments")
    except ConfigError as error:
        return refused("store", error)
    except StoreMovedError as error:
        return refused("store", error, ". ")
    except StoreFailedError as error:
        remedy = f"{error.failure.remedy}; a search runs without it, and names the missing runs"
        return Check("store", "warn", str(error), remedy)
