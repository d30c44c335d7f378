"""A search in a process of its own: ``python search_process.py OUTPUT EXPERIMENT.yaml SECONDS-AN-EPOCH``."""

import sys
from pathlib import Path

from orchestrator.experiment import load_experiment
from orchestrator.search import run_search
from tests.orchestrator import fake_workload
from trainables.errors import UserError


def main() -> None:
    output, file, seconds = sys.argv[1:]
    from ray import cloudpickle

    # The actors don't know the tests.
    cloudpickle.register_pickle_by_value(fake_workload)
    try:
        run_search(load_experiment(file), fake_workload.FakeWorkload(seconds=float(seconds)), Path(output))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
