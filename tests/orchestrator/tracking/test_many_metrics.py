"""Thousands of metrics of many trials are delivered whole, and a second time not at all."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.sync import deliver
from tests.support.experiments import make_experiment, start
from tests.support.records import append

METRICS, EPOCHS = 10, 5


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


@pytest.mark.proof
@pytest.mark.parametrize("trials", [20, pytest.param(200, marks=pytest.mark.proof)])
def test_all_metrics_of_many_trials_arrive_once(tmp_path: Path, store_template: Path, trials: int) -> None:
    shutil.copy(store_template, tmp_path / "mlflow.db")
    write_search(tmp_path, trials, METRICS)
    for _ in range(2):
        deliver(tmp_path / "tiny", tmp_path, default_uri(tmp_path))
        with sqlite3.connect(tmp_path / "mlflow.db") as database:
            tracked = "from metrics where key like 'cocos/%' or key = 'val/rsum'"
            assert database.execute(f"select count(*), count(distinct run_uuid) {tracked}").fetchone() == (
                trials * EPOCHS * METRICS,
                trials,
            )
            statuses = database.execute("select status, count(*) from runs group by status").fetchall()
            assert statuses == [("FINISHED", trials + 1)]
            held = database.execute("select max(value), avg(value) from metrics where key = 'val/rsum'").fetchone()
            assert held == pytest.approx((trials - 1 + EPOCHS, (trials - 1) / 2 + (EPOCHS + 1) / 2))
