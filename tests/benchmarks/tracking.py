"""How long it takes until what a search has found is in MLflow, beside one call a value.

    python -m tests.benchmarks tracking [--trials 200] [--metrics 10000] [--uri URI]

Delivered as ``orchestrator sync`` does: a run a trial in a run a study, with tags, params, dataset, files, metrics and
end. The other creates runs and logs params and metrics with one call each, as most callbacks do, and none of the rest;
it is run for a tenth of the trials, and its time multiplied. To create the database is left out: it is done once.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.store import Store
from orchestrator.tracking.sync import deliver
from tests.benchmarks.command import main
from tests.benchmarks.rows import Row
from tests.support.experiments import make_experiment, start
from tests.support.records import append

EPOCHS = 5
LONGEST = 60.0
"""Seconds that 10,000 metrics of 200 trials may take on SQLite."""

SHARE = 10
"""One of so many trials is logged by the other."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how much is delivered, and where."""
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--metrics", type=int, default=10_000, help="of all trials together")
    parser.add_argument("--uri", help="a store that is there already; by default a new SQLite database")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Deliver, then log a part of the same value by value."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder)
        uri = options.uri or default_uri(output)
        write_search(output, options.trials, options.metrics // options.trials // EPOCHS)
        Store(uri, output, "made before the clock runs")
        seconds, metrics = measure_delivery(output, uri), count_metrics(output)
        other = measure_calls(output, uri) * SHARE
    yield Row(
        f"{metrics} metrics of {options.trials} trials",
        "s",
        seconds,
        other,
        f"one call a param and metric, measured on a tenth; not to take more than {LONGEST:g} s",
        note=f"{metrics / seconds:.0f} metrics/s",
    )


def write_search(output: Path, trials: int, metrics: int) -> None:
    """Write the journal of a search whose trials have so many metrics in each of ``EPOCHS`` epochs."""
    experiment = make_experiment(losses=["nt_xent"], training={"epochs": EPOCHS})
    (cell,) = experiment.cells()
    (output / "tiny").mkdir()
    ledger = Ledger(output / "tiny" / JOURNAL_FILE)
    start(ledger, experiment)
    for number in range(trials):
        params = {"temperature": 0.01 + number / 1000}
        trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, params))
        for epoch in range(1, EPOCHS + 1):
            values = {f"cocos/count{place}": number + epoch / 10 for place in range(metrics - 1)}
            state = TrialState.FINISHED if epoch == EPOCHS else TrialState.RUNNING
            ledger.report(trial, epoch, {"val/rsum": float(number + epoch), **values}, state)
    append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    ledger.close()


def count_metrics(output: Path) -> int:
    """Return how many metrics the journal holds."""
    history = read(output)
    return sum(len(metrics) for trial in history.trials.values() for metrics in trial.epochs.values())


def read(output: Path) -> History:
    """Return what the journal says."""
    return History.of(read_journal(output / "tiny" / JOURNAL_FILE))


def measure_delivery(output: Path, uri: str) -> float:
    """Return the seconds until the store agrees with the journal."""
    started = time.perf_counter()
    deliver(output / "tiny", output, uri)
    return time.perf_counter() - started


def measure_calls(output: Path, uri: str) -> float:
    """Return the seconds until a part of the trials is logged value by value."""
    from mlflow import MlflowClient

    from orchestrator.tracking.description import params_of

    client = MlflowClient(tracking_uri=uri)
    place = (output / "calls").as_uri() if uri.startswith("sqlite:") else None
    experiment = client.create_experiment(f"calls {time.time_ns()}", artifact_location=place)
    trials = list(read(output).trials.values())
    started = time.perf_counter()
    for trial in trials[::SHARE]:
        made = client.create_run(experiment).info.run_id
        for name, param in params_of(trial).items():
            client.log_param(made, name, param)
        for epoch, metrics in trial.epochs.items():
            for name, value in metrics.items():
                client.log_metric(made, name, value, step=epoch)
        client.set_terminated(made)
    return time.perf_counter() - started


if __name__ == "__main__":
    main(["tracking"])
