"""Fused searches whose engine hangs, or whose engines or engine directory are killed: trials end as they would have."""

from typing import Any

import psutil
import pytest

from orchestrator.journal.records import TrialRetried
from orchestrator.machines.gpu_share import KEEP_FREED_MEMORY
from tests.faults.invariants import live_actors
from tests.faults.searches import Searches, grid
from tests.faults.troubled_workload import Trouble, TroubledWorkload, read_log

pytestmark = pytest.mark.proof

VALUES = [0.3, 0.05, 0.2, 0.02, 0.4, 0.006]


def fused(**changes: Any) -> Any:
    """Return a search of six trials, three at a time, in one engine."""
    return grid(VALUES, resources={"cpus": 2, "gpus": 0, "fuse": 3}, **changes)


def causes(searches: Searches) -> list[str | None]:
    return [record.cause for record in searches.journal() if isinstance(record, TrialRetried)]


def trainers(workload: TroubledWorkload) -> int:
    """Return how many processes have trained: engines, and actors of trials that had to be alone."""
    return len({line["pid"] for line in read_log(workload.log) if line["kind"] == "trained"})


def kinds_of_actors() -> dict[str, list[psutil.Process]]:
    """Return who of an engine and an engine directory is there."""
    live = [(actor, " ".join(actor.cmdline())) for actor in live_actors()]
    return {
        name: [actor for actor, title in live if f"ray::{name}" in title] for name in ("FusedEngine", "EngineDirectory")
    }


# In CI, a trial hangs in test_trials.py, and the engines of this file are killed from without and by a trial.
def test_an_engine_that_hangs_is_killed_and_its_trials_resume_in_another(searches: Searches) -> None:
    # Long enough an epoch that the three of the engine are there when it hangs.
    hang = {0.2: Trouble("hang", epoch=4, times=1)}
    workload = searches.workload(seconds=0.7, troubles=hang)
    searches.conclude(fused(patience={"epoch_minutes": 0.5}), workload, kills=1)
    history = searches.history()
    assert {str(trial.state) for trial in history.trials.values()} == {"finished"}
    assert "hung" in causes(searches)
    assert trainers(workload) == 2


# Engines die with the engine directory, and alone where a trial kills them.
@pytest.mark.parametrize("name", ["FusedEngine", "EngineDirectory"])
def test_a_dead_one_costs_an_epoch_at_most(searches: Searches, name: str) -> None:
    workload = searches.workload(otherwise=Trouble("wait"))
    process = searches.start(fused(), workload)
    searches.wait_for(lambda history: any(trial.epochs for trial in history.running()), process)
    actors = kinds_of_actors()
    assert actors["FusedEngine"]
    assert all(engine.environ().items() >= KEEP_FREED_MEMORY.items() for engine in actors["FusedEngine"])
    for found in actors[name]:
        found.kill()
    workload.go.touch()
    searches.join(process)
    assert {str(trial.state) for trial in searches.history().trials.values()} == {"finished"}
    assert set(causes(searches)) == {"error"}
    assert trainers(workload) == 2
    searches.judge(kills=1)


def test_one_that_kills_every_engine_is_found_out(searches: Searches) -> None:
    workload = searches.workload(troubles={0.2: Trouble("death")})
    searches.conclude(fused(), workload, kills=2)
    trials = {trial.params["temperature"]: trial for trial in searches.history().trials.values()}
    assert {value: str(trial.state) for value, trial in trials.items()} == {
        value: "failed" if value == 0.2 else "finished" for value in VALUES
    }
    assert "died" in (trials[0.2].error or "")
