"""A search as a process of its own that can be killed at any moment, also at a chosen write of the journal."""

import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal import ledger
from orchestrator.journal.journal import Journal, Record
from orchestrator.search import preparation, search
from tests.faults import troubled_workload
from tests.faults.troubled_workload import TroubledWorkload
from tests.support import fake_workload
from tests.support.forked_delivery import fork_delivery
from trainables.errors import UserError

MOMENTS = ("before", "torn", "after")
"""When a process dies that dies of writing a record: before it, with half of it written, or before it acts on it."""


@dataclass(frozen=True)
class Death:
    """The process kills itself when it writes the first record of a kind."""

    kind: str
    moment: str


@dataclass(frozen=True)
class Tracking:
    """Where a search is tracked, and how long it waits for that.

    Attributes:
        uri: The store; ``None`` is the one in its output directory.
        answer: Seconds that it waits for an answer.
        end: Seconds that its end waits for what is not delivered yet.
        pause: Seconds that it leaves a server alone at most which does not answer.
    """

    uri: str | None = None
    answer: float = 60
    end: float = 30
    pause: float = 30


class DeadlyJournal(Journal):
    """A journal at one of whose writes the process dies."""

    death: Death

    def append(self, kind: str, **fields: Any) -> Record:
        if kind != self.death.kind:
            return super().append(kind, **fields)
        before = self._file.seek(0, os.SEEK_END)
        if self.death.moment != "before":
            super().append(kind, **fields)
        if self.death.moment == "torn":
            os.truncate(self._file.fileno(), (before + self._file.seek(0, os.SEEK_END)) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


def drive(
    output: Path,
    values: dict[str, Any],
    workload: TroubledWorkload,
    address: str | None,
    death: Death | None,
    tracking: Tracking,
    file_bytes: int | None = None,
) -> None:
    """Run a search; what it prints goes into files beside the log of its workload.

    With ``file_bytes``, no file that this process writes can become longer.
    """
    folder = workload.log.parent
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(round(tracking.answer))
    preparation.TRACKING_SECONDS = tracking.end
    fork_delivery(tracking.pause)
    if death is not None:
        DeadlyJournal.death = death
        ledger.Journal = DeadlyJournal  # type: ignore[misc]
    import orchestrator.tuner.run  # noqa: F401, I001  sets what Ray reads when it is imported
    import ray

    # The actors don't know the tests.
    for module in (fake_workload, troubled_workload):
        ray.cloudpickle.register_pickle_by_value(module)
    if file_bytes is not None:
        # Python ignores the signal that would come, so that a write fails as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    if address is not None:
        ray.init(address=address, configure_logging=False, log_to_driver=False)
    try:
        experiment = validate(Experiment, values, "tiny.yaml")
        result = search.run_search(experiment, workload, output, tracking_uri=tracking.uri, quiet=True)
        print(result.tracking_problem or "tracked", flush=True)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)


def drive_orphaned(output: Path, *arguments: Any) -> None:
    """Run a search in a process whose parent has ended, and leave its number beside what it prints."""
    folder, parent = arguments[1].log.parent, os.getpid()
    if number := os.fork():
        (folder / "orphan").write_text(str(number))
        return
    os.setsid()
    while os.getppid() == parent:
        time.sleep(0.01)
    drive(output, *arguments)
