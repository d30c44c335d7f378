"""Trials that hang, run out of memory, die, diverge, or meet a full disk: the search continues, and says why."""

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.records import ConcurrencyLowered, TrialRetried
from tests.faults.searches import Searches, SearchesHere, grid
from tests.faults.troubled_workload import Trouble

VALUES = [0.3, 0.05, 0.2, 0.02, 0.4, 0.006]


def states(history: History) -> dict[float, tuple[str, int, int]]:
    return {
        trial.params["temperature"]: (str(trial.state), trial.last_epoch, trial.retries)
        for trial in history.trials.values()
    }


@pytest.mark.proof
def test_trials_in_trouble_are_tried_again_or_given_up_with_the_reason(searches: Searches) -> None:
    troubles = {
        0.3: Trouble("hang", times=1),
        0.05: Trouble("memory", times=2),
        0.2: Trouble("death", times=1),
        0.02: Trouble("memory"),
        0.4: Trouble("death"),
    }
    workload = searches.workload(troubles=troubles, diverges_above=0.44)
    experiment = grid([*VALUES, 0.45], patience={"epoch_minutes": 0.5, "memory_retries": 2})
    searches.conclude(experiment, workload)
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
    records = searches.journal()
    hung = next(record for record in records if isinstance(record, TrialRetried) and record.cause == "hung")
    assert hung.error == "hung: reported no epoch for 0.5 minutes (patience.epoch_minutes)"
    assert [record.trials for record in records if isinstance(record, ConcurrencyLowered)] == [1]


def test_a_full_disk_stops_the_search_and_fails_no_trial(any_searches: SearchesHere) -> None:
    workload = any_searches.workload(troubles={0.2: Trouble("full disk", times=1)})
    any_searches.finish(grid(VALUES), workload, code=1)
    stopped = any_searches.history()
    assert "No space left on device" in any_searches.errors()
    assert "Traceback" not in any_searches.errors()
    assert {str(trial.state) for trial in stopped.trials.values()} <= {"finished", "running"}
    assert stopped.running()
    any_searches.conclude(grid(VALUES), workload, stopped, kills=1)
