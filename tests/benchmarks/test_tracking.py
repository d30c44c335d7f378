"""Thousands of metrics of many trials are delivered whole, and a second time not at all."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from orchestrator.tracking.address import default_uri
from orchestrator.tracking.sync import deliver
from tests.benchmarks.tracking import EPOCHS, count_metrics, write_search

METRICS = 10


@pytest.mark.proof
@pytest.mark.parametrize("trials", [20, pytest.param(200, marks=pytest.mark.proof)])
def test_all_metrics_of_many_trials_arrive_once(tmp_path: Path, store_template: Path, trials: int) -> None:
    shutil.copy(store_template, tmp_path / "mlflow.db")
    write_search(tmp_path, trials, METRICS)
    assert count_metrics(tmp_path) == trials * EPOCHS * METRICS
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
