"""Trials that hang, run out of memory, die, diverge, or meet a full disk: the search continues, and says why."""

from pathlib import Path

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from tests.faults.invariants import assert_invariants
from tests.faults.searches import Searches, grid
from tests.faults.searches_here import SearchesHere
from tests.faults.troubled_workload import Trouble, TroubledWorkload

VALUES = [0.3, 0.05, 0.2, 0.02, 0.4, 0.006]


def states(history: History) -> dict[float, tuple[str, int, int]]:
    return {
        trial.params["temperature"]: (str(trial.state), trial.last_epoch, trial.retries)
        for trial in history.trials.values()
    }


@pytest.mark.proof
def test_trials_in_trouble_are_tried_again_or_given_up_with_the_reason(searches: Searches, tmp_path: Path) -> None:
    troubles = {
        0.3: Trouble("hang", times=1),
        0.05: Trouble("memory", times=2),
        0.2: Trouble("death", times=1),
        0.02: Trouble("memory"),
        0.4: Trouble("death"),
    }
    workload = TroubledWorkload(log=tmp_path / "trained.jsonl", troubles=troubles, diverges_above=0.44)
    experiment = grid([*VALUES, 0.45], patience={"epoch_minutes": 0.2, "memory_retries": 2})
    searches.finish(experiment, workload)
    history = searches.history()
    assert states(history) == {
        0.3: ("finished", 5, 1),
        0.05: ("finished", 5, 2),
        0.2: ("finished", 5, 1),
        0.02: ("failed", 1, 2),
        0.4: ("failed", 1, 2),
        0.006: ("finished", 5, 0),
        0.45: ("diverged", 1, 0),
    }
    errors = {trial.params["temperature"]: trial.error or "" for trial in history.trials.values()}
    assert "out of memory, 3 times: MemoryError; lower training.batch_size" in errors[0.02]
    assert "died" in errors[0.4]
    assert "nan" in errors[0.45]
    records = read_journal(searches.output / "tiny" / "journal.jsonl")
    hung = next(record for record in records if record["kind"] == "trial_retried" and record["cause"] == "hung")
    assert hung["error"] == "hung: reported no epoch for 0.2 minutes (patience.epoch_minutes)"
    assert [record["trials"] for record in records if record["kind"] == "concurrency_lowered"] == [1]
    assert_invariants(searches.output, log=workload.log, kills=0)


def test_a_full_disk_stops_the_search_and_fails_no_trial(any_searches: Searches | SearchesHere, tmp_path: Path) -> None:
    searches = any_searches
    workload = TroubledWorkload(log=tmp_path / "trained.jsonl", troubles={0.2: Trouble("full disk", times=1)})
    searches.finish(grid(VALUES), workload, code=1)
    stopped = searches.history()
    assert "No space left on device" in searches.errors()
    assert "Traceback" not in searches.errors()
    assert {str(trial.state) for trial in stopped.trials.values()} <= {"finished", "running"}
    assert stopped.running()
    searches.finish(grid(VALUES), workload)
    assert_invariants(searches.output, before=[stopped], log=workload.log, kills=1)
