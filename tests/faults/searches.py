"""Starts, watches and kills searches; how each of them ended is for ``invariants.py`` to judge."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psutil

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from tests.faults.driver import Death, Tracking, drive, drive_orphaned
from tests.faults.troubled_workload import TroubledWorkload
from tests.support.experiments import make_experiment

# On a busy machine, Ray may take longer to answer than the 5 s that its drivers wait for it.
os.environ.setdefault("RAY_gcs_rpc_server_connect_timeout_s", "60")

# A server that has imported what a driver needs, and forks one whenever it is asked: imports are half of a start.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "orchestrator.tuner.run",
        "orchestrator.studies.study",
        "orchestrator.tuner.scheduler",
        "mlflow.store.tracking.sqlalchemy_store",
        "tests.faults.driver",
    ]
)


def tiny(**changes: Any) -> Experiment:
    """Return one study of six random points that are all trained whole, two at a time."""
    search = {"sampler": "random", "trials": 6, "seed": 4}
    plain = {"losses": ["nt_xent"], "search": search, "scheduler": {"name": "none"}, "training": {"epochs": 5}}
    return make_experiment(**{**plain, **changes})


def grid(values: list[float], **changes: Any) -> Experiment:
    """Return one study that tries given temperatures in their order."""
    space = {"nt_xent": {"temperature": {"values": values}}}
    return tiny(**{"search": {"sampler": "grid", "trials": 100, "space": space}, **changes})


def with_store(output: Path, store_template: Path) -> Path:
    """Return a new output folder that has an MLflow database."""
    output.mkdir()
    shutil.copy(store_template, output / "mlflow.db")
    return output


class Searches:
    """The searches of one test, one after the other, in one output directory."""

    def __init__(self, output: Path, address: str | None) -> None:
        self.output, self.address = output, address
        self.tracking = Tracking()
        self.started: list[ForkServerProcess] = []
        self.orphans: list[psutil.Process] = []

    def start(
        self, experiment: Experiment, workload: TroubledWorkload, death: Death | None = None, *, own_ray: bool = False
    ) -> ForkServerProcess:
        address = None if own_ray else self.address
        arguments = (self.output, experiment.to_dict(), workload, address, death, self.tracking)
        self.prints = workload.log.parent
        process = CONTEXT.Process(target=drive, args=arguments)
        process.start()
        self.started.append(process)
        return process

    def start_orphan(self, experiment: Experiment, workload: TroubledWorkload) -> psutil.Process:
        """Start a search with a Ray of its own whose parent is process 1, as that of what systemd starts is."""
        arguments = (self.output, experiment.to_dict(), workload, None, None, self.tracking)
        self.prints = workload.log.parent
        parent = CONTEXT.Process(target=drive_orphaned, args=arguments)
        parent.start()
        self.started.append(parent)
        parent.join(60)
        orphan = psutil.Process(int((self.prints / "orphan").read_text()))
        self.orphans.append(orphan)
        return orphan

    def finish(self, experiment: Experiment, workload: TroubledWorkload, *, code: int = 0) -> None:
        """Run a search to its end, which has to be that exit code."""
        process = self.start(experiment, workload)
        process.join(240)
        assert process.exitcode == code, self.errors()

    def crash(self, experiment: Experiment, workload: TroubledWorkload, condition: Callable[[History], bool]) -> None:
        """Run a search and kill it as soon as a condition holds."""
        process = self.start(experiment, workload)
        self.wait_for(condition, process)
        process.kill()
        process.join()

    def die(self, experiment: Experiment, workload: TroubledWorkload, death: Death) -> None:
        """Run a search that kills itself at a chosen write of its journal."""
        process = self.start(experiment, workload, death)
        process.join(240)
        assert process.exitcode == -signal.SIGKILL, (death, self.errors())

    def history(self) -> History:
        journal = self.output / "tiny" / "journal.jsonl"
        return History.of(read_journal(journal)) if journal.exists() else History()

    def records(self) -> int:
        """Return how many records the journal holds."""
        journal = self.output / "tiny" / "journal.jsonl"
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    def lock(self) -> dict[str, Any]:
        """Return what the lock says."""
        holder: dict[str, Any] = json.loads((self.output / "tiny" / "lock").read_text())
        return holder

    def wait_for(self, condition: Callable[[History], bool], process: ForkServerProcess | psutil.Process) -> None:
        runs = process.is_running if isinstance(process, psutil.Process) else process.is_alive
        deadline = time.monotonic() + 200
        while not condition(self.history()):
            assert runs(), self.errors()
            assert time.monotonic() < deadline, f"the search does not get on: {self.history()}"
            time.sleep(0.02)

    def errors(self) -> str:
        return self.printed("stderr")

    def printed(self, stream: str = "stdout") -> str:
        file = self.prints / stream
        return file.read_text() if file.exists() else ""

    def close(self) -> None:
        """End all processes of the searches that still run."""
        alive = [psutil.Process(process.pid) for process in self.started if process.is_alive()]
        for process in (*alive, *(orphan for orphan in self.orphans if orphan.is_running())):
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait(60)


OTHERS = ("IDLE", "Agent")
"""What Ray calls its processes that run nobody's actor."""


def live_actors() -> list[psutil.Process]:
    """Return the actors that this process and what it started have running."""
    family = psutil.Process().children(recursive=True)
    return [child for child in family if is_actor(child)]


def is_actor(process: psutil.Process) -> bool:
    """Say whether a process is alive and runs a trial."""
    return "ray::" in _title(process) and not any(name in _title(process) for name in OTHERS)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""
