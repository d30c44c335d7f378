"""Budgets: what was spent is read from the journal, whatever was killed meanwhile, and each limit is found."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.experiment.sections import Budget
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal import ledger as ledger_module
from orchestrator.journal.history import History, Spending
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record
from orchestrator.journal.trial import TrialState
from orchestrator.searches.budget import BudgetMeter
from tests.support.experiments import add_trial, make_experiment, start
from tests.support.records import event

BESIDE: dict[str, dict[str, Any]] = {
    "experiment_started": {"experiment": {}, "data": {}, "environment": {}},
    "experiment_ended": {"outcome": "finished"},
    "epoch": {"epoch": 1, "metrics": {}},
    "trial_retried": {"error": ""},
    "trial_ended": {"error": ""},
}
"""Kind -> fields that say nothing about what was spent."""


def record(time: float, kind: str, **fields: Any) -> Record:
    return event(kind, time=time, **BESIDE.get(kind, {}), **fields)


def spent(records: Iterable[Record]) -> Spending:
    spending = Spending()
    for one in records:
        spending.apply(one)
    return spending


STARTED, ENDED = "experiment_started", "experiment_ended"
RUNS_A, RUNS_B = {"trial": "a", "gpus": 0.5}, {"trial": "b", "gpus": 2.0}


@pytest.mark.parametrize(
    ("records", "seconds", "gpu_seconds"),
    [
        pytest.param([], 0, 0, id="nothing"),
        pytest.param([record(100, STARTED), record(160, ENDED)], 60, 0, id="no trial"),
        pytest.param(
            [record(100, STARTED), record(160, ENDED), record(1000, STARTED), record(1005, ENDED)],
            65,
            0,
            id="the time between two starts is not spent",
        ),
        pytest.param(
            [
                record(0, STARTED),
                record(10, "trial_started", **RUNS_A),
                record(20, "trial_started", **RUNS_B),
                record(30, "epoch", trial="a", state="running"),
                record(50, "epoch", trial="a", state="finished"),
                record(60, "trial_ended", trial="b", state="failed"),
                record(90, ENDED),
            ],
            90,
            40 * 0.5 + 40 * 2.0,
            id="two trials",
        ),
        pytest.param(
            [
                record(0, STARTED),
                record(0, "trial_started", **RUNS_B),
                record(10, "trial_retried", trial="b"),
                record(15, "trial_started", **RUNS_B),
                record(20, "epoch", trial="b", state="running"),
                record(500, STARTED),
                record(510, "trial_started", **RUNS_B),
                record(512, ENDED),
            ],
            20 + 12,
            10 * 2.0 + 5 * 2.0 + 2 * 2.0,
            id="waiting for a retry takes no GPU, and a killed process takes nothing after its last record",
        ),
        pytest.param([record(100, STARTED), record(40, "x"), record(50, ENDED)], 10, 0, id="a clock set back"),
        pytest.param([record(86_500, "x"), record(86_510, ENDED)], 10, 0, id="what came before the first record"),
        pytest.param(
            [
                record(100, STARTED, elapsed=1.0),
                record(86_500, "trial_started", elapsed=3.0, **RUNS_B),
                record(86_510, ENDED, elapsed=13.0),
            ],
            12,
            10 * 2.0,
            id="a clock set forward",
        ),
        pytest.param(
            [record(100, STARTED, elapsed=1.0), record(40, "x", elapsed=3.0), record(50, ENDED, elapsed=13.0)],
            12,
            0,
            id="a clock set back, with the time since the start",
        ),
        pytest.param(
            [record(100, STARTED), record(110, "x"), record(20, STARTED, elapsed=9.0), record(9, ENDED, elapsed=14.0)],
            10 + 5,
            0,
            id="the former start is of an older version",
        ),
    ],
)
def test_what_was_spent_is_added_up(records: list[Record], seconds: float, gpu_seconds: float) -> None:
    spending = spent(records)
    assert (spending.seconds, spending.gpu_seconds) == (seconds, gpu_seconds)


def meter(history: History, **limits: float) -> BudgetMeter:
    return BudgetMeter(validate(Budget, limits, "budget"), history)


def test_hours_count_between_records(clock: list[float]) -> None:
    spending = spent([record(0, STARTED), record(1800, ENDED), record(9000, STARTED)])
    made = meter(History(spending=spending), hours=1)
    assert made.limit() is None
    clock[0] += 1799
    assert made.limit() is None
    clock[0] += 1
    assert made.limit() == "hours"


def test_gpu_hours_count_each_trial_that_runs(clock: list[float]) -> None:
    running = [record(0, STARTED), record(0, "trial_started", **RUNS_A), record(0, "trial_started", **RUNS_B)]
    history = History(spending=spent(running))
    made = meter(history, gpu_hours=1)
    clock[0] += 3600 / 2.5 - 1
    assert made.limit() is None
    clock[0] += 1
    assert made.limit() == "gpu_hours"
    assert meter(history, hours=1e6).limit() is None


def of_journal(ledger: Ledger, **limits: float) -> BudgetMeter:
    made = meter(ledger.history, **limits)
    ledger.listeners.append(made.listen)
    return made


def test_a_target_is_reached_by_a_trial_that_can_win(ledger: Ledger) -> None:
    made = of_journal(ledger, target=30.0)
    add_trial(ledger, [31.0], state=TrialState.RUNNING)
    add_trial(ledger, [31.0], state=TrialState.STOPPED_EARLY)
    add_trial(ledger, [31.0], state=TrialState.DIVERGED)
    add_trial(ledger, [29.9])
    assert made.limit() is None
    add_trial(ledger, [20.0, 30.0, 25.0])
    assert made.limit() == "target"


def test_a_plateau_closes_its_study_until_something_better_comes(ledger: Ledger) -> None:
    made = of_journal(ledger, plateau=3)
    name, other = (cell.name for cell in make_experiment().cells())
    for _ in range(4):
        add_trial(ledger, [1.0], state=TrialState.FAILED)
    assert not made.is_closed(name), "what has no best value yet is on no plateau"
    add_trial(ledger, [10.0])
    slow = add_trial(ledger, [10.0], state=TrialState.RUNNING)
    add_trial(ledger, [10.0])
    add_trial(ledger, [99.0], state=TrialState.STOPPED_EARLY)
    assert not made.is_closed(name)
    add_trial(ledger, [9.0], state=TrialState.DIVERGED)
    assert made.is_closed(name)
    assert not made.is_closed(other)
    assert made.limit() is None
    ledger.report(slow, 2, {"val/rsum": 11.0}, TrialState.FINISHED)
    assert not made.is_closed(name)


def test_a_fresh_process_knows_the_same(ledger: Ledger) -> None:
    add_trial(ledger, [30.0])
    add_trial(ledger, [20.0])
    made = meter(ledger.history, plateau=1, target=30.0)
    assert (made.limit(), made.is_closed("pets-vsepp-nt_xent")) == ("target", True)


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0], ids=["forward", "back"])
def test_whoever_sets_the_machines_clock_spends_and_gives_back_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jump: float
) -> None:
    date, since_boot = [1.7e9], [5000.0]
    monkeypatch.setattr(ledger_module.time, "time", lambda: date[0])
    monkeypatch.setattr(ledger_module.time, "monotonic", lambda: since_boot[0])

    def wait(seconds: float, jumped: float = 0.0) -> None:
        date[0] += seconds + jumped
        since_boot[0] += seconds

    for booted in (5000.0, 20.0):
        # The second start is after a reboot, and an hour after the end of the first.
        wait(3600.0)
        since_boot[0] = booted
        ledger = Ledger(tmp_path / "journal.jsonl")
        made = meter(ledger.history, hours=60 / 3600)
        ledger.listeners.append(made.listen)
        start(ledger, make_experiment())
        wait(10.0, jump)
        trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
        assert made.limit() is None
        wait(20.0, jump)
        ledger.report(trial, 2, {"val/rsum": 2.0}, TrialState.FINISHED)
        assert trial.ended_after is not None
        assert trial.ended_after - trial.created_after == trial.seconds == 20.0
        assert made.limit() == (None if booted == 5000.0 else "hours")
        ledger.close()
    assert spent(read_journal(tmp_path / "journal.jsonl")).seconds == 60.0
