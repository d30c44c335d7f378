"""What Ray Tune tells of the lives of trials becomes records."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.journal.directory import read_places
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tuner import callback as module
from orchestrator.tuner.actor import Step
from orchestrator.tuner.callback import TrialCallback
from tests.support.experiments import add_trial, make_experiment


class RayTrialStub:
    """Of a trial of Ray's, what the callback reads."""

    def __init__(self, trial: str, gpus: float) -> None:
        self.config = {"trial": trial}
        self.placement_group_factory = SimpleNamespace(required_resources={"GPU": gpus})
        self.temporary_state = SimpleNamespace(ray_actor=None)


def make_callback(ledger: Ledger) -> TrialCallback:
    session: Any = SimpleNamespace(ledger=ledger, checkpoints=None, on_step=lambda: None, experiment=make_experiment())
    nobody: Any = None
    return TrialCallback(session, nobody, nobody)


def test_where_trials_run_is_written_at_most_every_second(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, clock = ledger.path.parent, [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0], time=time.time))
    callback, trial = make_callback(ledger), RayTrialStub("a", 0.0)
    seen = []
    for epoch in (1, 2, 3):
        result = {"hostname": "elsewhere", "pid": 16 + epoch, "step": Step(epoch)}
        clock[0] += 0.75
        callback.on_trial_result(iteration=1, trials=[trial], trial=trial, result=result)
        callback.on_step_end(iteration=1, trials=[trial])
        seen.append(read_places(folder)["a"])
    assert [place.pid for place in seen] == [17, 17, 19]


def test_a_running_trial_that_is_preempted_holds_no_gpu_until_it_starts_again(ledger: Ledger) -> None:
    ours = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    callback, trial = make_callback(ledger), RayTrialStub(ours.id, 0.5)
    told: Any = {"iteration": 1, "trials": [trial], "trial": trial}
    callback.on_trial_start(**told)
    assert ledger.history.spending.gpus == 0.5
    callback.on_trial_recover(**told)
    assert ledger.history.spending.gpus == 0.0
    assert (ours.state, ours.retries, ours.setbacks) == (TrialState.RUNNING, 1, 0)
    callback.on_trial_start(**told)
    assert ledger.history.spending.gpus == 0.5
