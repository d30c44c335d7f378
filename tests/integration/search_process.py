"""A search in a process of its own: ``search_process.py OUTPUT EXPERIMENT.yaml SECONDS-AN-EPOCH [ADDRESS STORAGE]``.

Where a file ``hold`` lies beside the description, a training waits after its third epoch until that file is gone.
"""

import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import yaml

from orchestrator.cli import end
from orchestrator.experiment.experiment import Experiment, load_experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.machines.cluster import Cluster
from orchestrator.searches.search import run_search
from tests.support import fake_workload
from tests.support.fake_workload import FakeWorkload
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import UserError


def command(output: Path, experiment: Experiment, seconds: float, *place: str) -> list[str]:
    """Write an experiment beside its output folder, and return what runs this file with it."""
    file = output.parent / "tiny.yaml"
    file.write_text(yaml.safe_dump(experiment.to_dict()))
    return [sys.executable, "-m", "tests.integration.search_process", str(output), str(file), str(seconds), *place]


def history(base: Path) -> History:
    """Return the history of the search ``tiny`` with the output ``base / "runs"``, empty before it has a journal."""
    path = base / "runs" / "tiny" / "journal.jsonl"
    return History.of(read_journal(path)) if path.exists() else History()


@dataclass(frozen=True)
class Held(FakeWorkload):
    """Trainings that wait after their third epoch while there is a file ``hold``."""

    hold: Path = Path("hold")

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        for report in super().train(config, resume):
            yield report
            while report.epoch >= 3 and self.hold.exists():
                time.sleep(0.05)


def main() -> None:
    output, file, seconds, *place = sys.argv[1:]
    from ray import cloudpickle

    # The actors don't know the tests.
    for module in (fake_workload, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)
    try:
        workload = Held(seconds=float(seconds), hold=Path(file).with_name("hold"))
        run_search(load_experiment(file), workload, Path(output), cluster=Cluster(*place))
    except UserError as error:
        print(error, file=sys.stderr)
        end(error)


if __name__ == "__main__":
    main()
