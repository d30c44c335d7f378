"""Trials that hang, run out of memory, die or diverge: the search continues, and says why."""

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.records import ConcurrencyLowered, TrialRetried
from tests.faults.searches import Searches, grid
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
