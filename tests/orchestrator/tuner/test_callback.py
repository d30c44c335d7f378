"""What Ray Tune tells of the lives of trials becomes records."""

from types import SimpleNamespace
from typing import Any

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tuner.callback import TrialCallback
from tests.support.experiments import add_trial, make_experiment


class RayTrialStub:
    """Of a trial of Ray's, what the callback reads."""

    def __init__(self, trial: str, gpus: float) -> None:
        self.config = {"trial": trial}
        self.placement_group_factory = SimpleNamespace(required_resources={"GPU": gpus})


def test_a_running_trial_that_is_preempted_holds_no_gpu_until_it_starts_again(ledger: Ledger) -> None:
    ours = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    session: Any = SimpleNamespace(ledger=ledger, checkpoints=None, on_step=lambda: None, experiment=make_experiment())
    nobody: Any = None
    callback, trial = TrialCallback(session, nobody, nobody), RayTrialStub(ours.id, 0.5)
    told: Any = {"iteration": 1, "trials": [trial], "trial": trial}
    callback.on_trial_start(**told)
    assert ledger.history.spending.gpus == 0.5
    callback.on_trial_recover(**told)
    assert ledger.history.spending.gpus == 0.0
    assert (ours.state, ours.retries, ours.setbacks) == (TrialState.RUNNING, 1, 0)
    callback.on_trial_start(**told)
    assert ledger.history.spending.gpus == 0.5
