"""A search as a process of its own that can be killed at any moment, also at a chosen write of the journal."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import ledger
from orchestrator.config_files import validate
from orchestrator.experiment import Experiment
from orchestrator.journal import Journal, Record
from orchestrator.search import run_search
from tests.faults import troubled_workload
from tests.faults.troubled_workload import TroubledWorkload
from tests.orchestrator import fake_workload
from trainables.errors import UserError

MOMENTS = ("before", "torn", "after")
"""When a process dies that dies of writing a record: before it, with half of it written, or before it acts on it."""


@dataclass(frozen=True)
class Death:
    """The process kills itself when it writes the first record of a kind."""

    kind: str
    moment: str


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
    tracking_uri: str | None,
) -> None:
    """Run a search; what it prints goes into files beside the log of its workload."""
    folder = workload.log.parent
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    if death is not None:
        DeadlyJournal.death = death
        ledger.Journal = DeadlyJournal  # type: ignore[misc]
    import ray

    import orchestrator.tuner  # noqa: F401  sets what Ray reads when it is imported

    # The actors don't know the tests.
    for module in (fake_workload, troubled_workload):
        ray.cloudpickle.register_pickle_by_value(module)
    if address is not None:
        ray.init(address=address, configure_logging=False, log_to_driver=False)
    try:
        run_search(validate(Experiment, values, "tiny.yaml"), workload, output, tracking_uri=tracking_uri, quiet=True)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
