"""A search as a process of its own that can be killed at any moment, also at a chosen write of the journal."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import read_record
from orchestrator.searches import preparation, search
from orchestrator.tracking import tracker
from tests.faults import troubled_workload
from tests.faults.troubled_workload import TroubledWorkload
from tests.support import fake_workload
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
    """Where a search is tracked, ``None`` for its output directory; seconds that it waits for an answer, waits in the
    end, and leaves a server alone that does not answer."""

    uri: str | None = None
    answer: float = 60
    end: float = 200
    pause: float = 30


def die(death: Death) -> None:
    """Let this process die at a write of its journal."""
    write = Ledger._write

    def write_or_die(ledger: Ledger, line: bytes, may_lag: bool) -> None:
        if read_record(line).kind != death.kind:
            write(ledger, line, may_lag)
            return
        if death.moment != "before":
            write(ledger, line[: len(line) // 2] if death.moment == "torn" else line, may_lag)
        os.kill(os.getpid(), signal.SIGKILL)

    Ledger._write = write_or_die  # type: ignore[method-assign]


def drive(
    output: Path,
    values: dict[str, Any],
    workload: TroubledWorkload,
    address: str | dict[str, int],
    death: Death | None,
    tracking: Tracking,
) -> None:
    """Run a search on the Ray at an address, or on one of its own with so many CPUs and GPUs.

    What it prints goes into files beside the log of its workload.
    """
    folder = workload.log.parent
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(round(tracking.answer))
    preparation.TRACKING_SECONDS = tracking.end
    delivers = f"from orchestrator.tracking import tracker; tracker.LONGEST_PAUSE = {tracking.pause}; tracker.main()"
    tracker.COMMAND = (sys.executable, "-P", "-c", delivers)
    if death is not None:
        die(death)
    import orchestrator.tuner.run  # noqa: F401, I001  sets what Ray reads when it is imported
    import ray

    # The actors don't know the tests.
    for module in (fake_workload, troubled_workload):
        ray.cloudpickle.register_pickle_by_value(module)
    if isinstance(address, str):
        ray.init(address=address, configure_logging=False, log_to_driver=False)
    else:
        os.environ["RAY_OVERRIDE_RESOURCES"] = json.dumps(address)
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
