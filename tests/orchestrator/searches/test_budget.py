"""Budgets: what was spent is read from the journal, whatever was killed meanwhile, and each limit is found."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.experiment.sections import Budget
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal import ledger as ledger_module
from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History, Spending
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.results.confirmation_plan import repeat
from orchestrator.searches.budget import BudgetMeter
from orchestrator.searches.resuming import extend_experiment
from tests.support.experiments import add_trial, begun, make_experiment, start
from tests.support.records import append, event

EPOCH: dict[str, Any] = {"kind": "epoch", "epoch": 1, "metrics": {}}
EVENTS: dict[str, dict[str, Any]] = {
    "starts": {"kind": "experiment_started", "experiment": {}, "data": {}, "environment": {}},
    "ends": {"kind": "experiment_ended", "outcome": "finished"},
    "other": {"kind": "x"},
    "runs": {"kind": "trial_started"},
    "epoch": {**EPOCH, "state": "running"},
    "finishes": {**EPOCH, "state": "finished"},
    "waits": {"kind": "trial_retried", "error": ""},
    "fails": {"kind": "trial_ended", "state": "failed", "error": ""},
}
GPUS = {"a": 0.5, "b": 2.0}
"""Trial -> its GPUs."""


def spent(story: str) -> Spending:
    """Return what was spent in a story such as ``10@3 runs a``: the date, the time since the start (by default
    the date too), and an event."""
    spending = Spending()
    for part in filter(None, story.split(", ")):
        clock, what, *trials = part.split()
        date, _, elapsed = clock.partition("@")
        fields = EVENTS[what] | {"elapsed": float(elapsed or date)}
        for trial in trials:
            fields |= {"trial": trial} | ({"gpus": GPUS[trial]} if what == "runs" else {})
        spending.apply(event(time=float(date), **fields))
    return spending


@pytest.mark.parametrize(
    ("story", "seconds", "gpu_seconds"),
    [
        pytest.param("", 0, 0, id="nothing"),
        pytest.param("100 starts, 160 ends, 1000 starts, 1005 ends", 65, 0, id="nothing between two starts"),
        pytest.param(
            "0 starts, 10 runs a, 20 runs b, 30 epoch a, 50 finishes a, 60 fails b, 90 ends",
            90,
            40 * 0.5 + 40 * 2.0,
            id="two trials",
        ),
        pytest.param(
            "0 starts, 0 runs b, 10 waits b, 15 runs b, 20 epoch b, 500 starts, 510 runs b, 512 ends",
            20 + 12,
            10 * 2.0 + 5 * 2.0 + 2 * 2.0,
            id="waiting for a retry takes no GPU, and a killed process takes nothing after its last record",
        ),
        pytest.param("86500 other, 86510 ends", 10, 0, id="what came before the first record"),
        pytest.param("100@1 starts, 86500@3 runs b, 86510@13 ends", 12, 10 * 2.0, id="a clock set forward"),
        pytest.param("100@1 starts, 40@3 other, 50@13 ends", 12, 0, id="set back, with the time since the start"),
    ],
)
def test_what_was_spent_is_added_up(story: str, seconds: float, gpu_seconds: float) -> None:
    spending = spent(story)
    assert (spending.seconds, spending.gpu_seconds) == (seconds, gpu_seconds)


def meter(history: History, **limits: float) -> BudgetMeter:
    return BudgetMeter(validate(Budget, limits, "budget"), history)


@pytest.mark.parametrize(
    ("story", "limit", "seconds"),
    [
        pytest.param("0 starts, 1800 ends, 9000 starts", "hours", 1800, id="hours"),
        pytest.param("0 starts, 0 runs a, 0 runs b", "gpu_hours", 3600 / 2.5, id="GPU hours of each trial that runs"),
    ],
)
def test_time_counts_between_records(clock: list[float], story: str, limit: str, seconds: float) -> None:
    history = History(spending=spent(story))
    made, without = meter(history, **{limit: 1}), meter(history, target=1e6)
    for passed, reached in ((0, None), (seconds - 1, None), (1, limit)):
        clock[0] += passed
        assert (made.limit(), without.limit()) == (reached, None)


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


def test_the_time_of_a_confirmation_and_of_test_is_none_of_the_budget(clock: list[float], tmp_path: Path) -> None:
    for start_number in (1, 2):
        with begun(tmp_path) as ledger:
            made = of_journal(ledger, hours=1, gpu_hours=1)
            if start_number == 1:
                clock[0] += 1800
                found = add_trial(ledger, [1.0])
                ledger.begin(repeat(found, 0, 7))
            again = f"{found.id}-seed0"
            append(ledger, "trial_started", trial=again, gpus=1.0)
            clock[0] += 9000
            ledger.report(ledger.history.trials[again], start_number, {"val/rsum": 1.0}, TrialState.RUNNING)
            append(ledger, "test_opened", dataset="pets", trials=[again])
            clock[0] += 9000
            append(ledger, "test_evaluated", trial=again, metrics={})
            assert (made.limit(), made.used()) == (None, {"hours": (0.5, 1.0), "gpu_hours": (0.0, 1.0)})
    assert extend_experiment(tmp_path, ledger.history, None, 2.0, []).budget.hours == 2.5
    assert ledger.history.spending.gpu_seconds == 36000


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0], ids=["forward", "back"])
def test_a_clock_that_is_set_spends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jump: float) -> None:
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
        assert trial.ended_after - trial.created_after == trial.seconds == 20.0
        assert made.limit() == (None if booted == 5000.0 else "hours")
        ledger.close()
    assert read_history(tmp_path).spending.seconds == 60.0
