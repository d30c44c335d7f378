"""Ten thousand metrics of two hundred trials are delivered whole, and a second time not at all."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from orchestrator.tracking import default_uri
from orchestrator.tracking.sync import deliver
from tests.benchmarks.tracking import EPOCHS, count_metrics, write_search

TRIALS, METRICS = 200, 10


@pytest.mark.slow
def test_all_metrics_of_many_trials_arrive_once(tmp_path: Path, store_template: Path) -> None:
    shutil.copy(store_template, tmp_path / "mlflow.db")
    write_search(tmp_path, TRIALS, METRICS)
    assert count_metrics(tmp_path) == TRIALS * EPOCHS * METRICS == 10_000
    for _ in range(2):
        deliver(tmp_path / "tiny", tmp_path, default_uri(tmp_path))
        with sqlite3.connect(tmp_path / "mlflow.db") as database:
            tracked = "from metrics where key like 'cocos/%' or key = 'val/rsum'"
            assert database.execute(f"select count(*), count(distinct run_uuid) {tracked}").fetchone() == (
                10_000,
                TRIALS,
            )
            statuses = database.execute("select status, count(*) from runs group by status").fetchall()
            assert statuses == [("FINISHED", TRIALS + 1)]
            held = database.execute("select max(value), avg(value) from metrics where key = 'val/rsum'").fetchone()
            assert held == pytest.approx((199 + 5, 99.5 + 3))
