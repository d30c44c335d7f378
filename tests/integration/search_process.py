"""A search in a process of its own: ``search_process.py OUTPUT EXPERIMENT.yaml SECONDS-AN-EPOCH [ADDRESS STORAGE]``."""

import sys
from pathlib import Path

from orchestrator.cli import end
from orchestrator.experiment.experiment import load_experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.machines.cluster import Cluster
from orchestrator.searches.search import run_search
from tests.support import fake_workload
from trainables.errors import UserError


def command(output: Path, file: Path, seconds: float, *place: str) -> list[str]:
    """Return what runs this file."""
    return [sys.executable, "-m", "tests.integration.search_process", str(output), str(file), str(seconds), *place]


def history(base: Path) -> History:
    """Return the history of the search ``tiny`` with the output ``base / "runs"``, empty before it has a journal."""
    path = base / "runs" / "tiny" / "journal.jsonl"
    return History.of(read_journal(path)) if path.exists() else History()


def main() -> None:
    output, file, seconds, *place = sys.argv[1:]
    from ray import cloudpickle

    # The actors don't know the tests.
    cloudpickle.register_pickle_by_value(fake_workload)
    try:
        workload = fake_workload.FakeWorkload(seconds=float(seconds))
        run_search(load_experiment(file), workload, Path(output), cluster=Cluster(*place))
    except UserError as error:
        print(error, file=sys.stderr)
        end(error)


if __name__ == "__main__":
    main()
