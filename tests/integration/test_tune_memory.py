"""What Ray Tune keeps of ended trials: nothing, so that a driver does not grow with every trial."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from orchestrator.searches.search import run_search
from orchestrator.tuner import scheduler
from orchestrator.tuner.tune_patches import forget_ended
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload

pytestmark = pytest.mark.proof

TRIALS = 12


def test_an_ended_trial_leaves_nothing_in_ray(ray_session: None, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    living: weakref.WeakSet[Any] = weakref.WeakSet()
    names: set[str] = set()
    tasks: list[int] = []

    def watch(controller: Any) -> None:
        living.update(controller.get_trials())
        names.update(trial.trial_id for trial in controller.get_trials())
        forget_ended(controller)
        tasks.append(len(controller._actor_manager._pending_actors_to_enqueued_actor_tasks))

    monkeypatch.setattr(scheduler, "forget_ended", watch)
    search, resources = {"sampler": "random", "trials": TRIALS}, {"cpus": 1, "gpus": 0, "max_concurrent": 2}
    experiment = make_experiment(losses=["nt_xent"], search=search, resources=resources)
    result = run_search(experiment, FakeWorkload(fails_below=0.03), output, quiet=True)
    gc.collect()
    assert len(result.summary["trials"]) == TRIALS <= len(names)
    # Those that were the last to end are Ray's until its end.
    assert len(living) <= 3
    assert max(tasks) <= 3
