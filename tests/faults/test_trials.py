"""Trials that hang, run out of memory, die or diverge: the search continues, and says why."""

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.records import ConcurrencyLowered, LimitNoted, TrialRetried, TrialStarted, has_ended
from tests.faults.searches import Searches, grid
from tests.faults.troubled_workload import Trouble
from tests.integration.test_gpu_share import assert_measured_once, sharing

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


@pytest.mark.proof
def test_fewer_share_a_gpu_after_memory_ran_out(searches: Searches) -> None:
    # The second waits for the first, so that both share the GPU when its memory runs out.
    workload = searches.workload(troubles={0.3: Trouble("memory", times=1), 0.05: Trouble("wait")})
    experiment = grid(VALUES[:4], resources={"cpus": 1, "gpus": 0.25}, training={"epochs": 3})
    searches.resources = {"CPU": 2, "GPU": 1}
    process = searches.start(experiment, workload, own_ray=True)
    searches.wait_for(lambda history: any(trial.retries for trial in history.trials.values()), process)
    workload.go.touch()
    searches.join(process)
    records = searches.journal()
    started = [(record.trial[-1], record.gpus) for record in records if isinstance(record, TrialStarted)]
    assert [gpus for trial, gpus in started if trial == "0"] == [0.25, 0.5]
    assert started[-1] == ("3", 0.5)
    assert [record.state for record in records if has_ended(record)] == ["finished"] * 4


@pytest.mark.proof
def test_memory_is_measured_once_on_ray_and_shared_as_its_cpus_allow(searches: Searches) -> None:
    searches.resources = {"CPU": 1, "GPU": 1}
    for trials in (1, 2):
        searches.join(searches.start(sharing(trials), searches.workload(), own_ray=True))
    records = searches.journal()
    assert_measured_once(records)
    first, second = searches.workload().measured.read_text().split()
    assert first == second, "one process measures both studies: to start one on a GPU takes 8 s"
    (note,) = {record.message for record in records if isinstance(record, LimitNoted)}
    assert note.startswith("the GPUs would take 3 trials at a time, but 1 CPUs let 2 run at resources.cpus=0.5")
