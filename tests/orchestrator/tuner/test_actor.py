"""The actor without a cluster: an epoch a step, a checkpoint each, and nothing of one trial left for the next."""

import json
import math
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

from orchestrator.storage.stores import FolderStore
from orchestrator.tuner.actor import Step, TrialActor, trial_actor
from tests.support.fake_workload import FakeWorkload, curve, report
from trainables.checkpoint import EpochReport
from trainables.config import TrainingConfig, TrialConfig
from trainables.errors import DataError


def config(trial: str, temperature: float = 0.1) -> dict[str, str]:
    training = TrainingConfig(epochs=5)
    trial_config = TrialConfig(dataset="pets", loss_parameters={"temperature": temperature}, training=training)
    return {"trial": trial, "config": json.dumps(trial_config.to_dict())}


def actor(trials: Path, workload: Any, first: dict[str, str]) -> TrialActor:
    made = TrialActor.__new__(TrialActor)
    made.setup(first, train=workload.train, checkpoints=FolderStore(trials))
    return made


def step(made: TrialActor) -> Step:
    result: Step = made.step()["step"]
    return result


def test_each_step_is_an_epoch_with_its_checkpoint_and_three_are_kept(tmp_path: Path) -> None:
    made = actor(tmp_path, FakeWorkload(), config("a"))
    for epoch in range(1, 6):
        assert step(made) == Step(epoch, dict(report(0.1, epoch).metrics))
        assert (tmp_path / "a" / f"epoch_{epoch:04d}" / "best.pt").is_file()
    assert len(list((tmp_path / "a").iterdir())) == 3


def test_another_actor_resumes_with_the_report_of_the_newest_checkpoint(tmp_path: Path) -> None:
    first = actor(tmp_path, FakeWorkload(), config("a"))
    steps = [step(first) for _ in range(3)]
    second = actor(tmp_path, FakeWorkload(), config("a"))
    assert step(second) == steps[2]
    assert step(second).epoch == 4


def test_the_class_for_ray_carries_what_trains_a_trial_beside_others_and_alone(tmp_path: Path) -> None:
    bound = trial_actor(FakeWorkload(fails_below=1.0).train, FolderStore(tmp_path), FakeWorkload().train)
    # Without Ray there is nothing else that could carry it.
    copy = cloudpickle.loads(cloudpickle.dumps(bound))
    assert issubclass(copy, TrialActor) and copy.__name__ == "TrialActor"
    made = copy.__new__(copy)
    made.setup(config("a"))
    step(made)
    with pytest.raises(RuntimeError, match="no luck"):
        step(made)
    made.reset_config({**config("a"), "alone": True})
    assert [step(made).epoch for _ in range(5)] == [1, 2, 3, 4, 5]
    made.reset_config({**config("b"), "alone": False})
    step(made)
    with pytest.raises(RuntimeError, match="no luck"):
        step(made)


@pytest.mark.parametrize("damage", ["cut", "removed"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path: Path, damage: str) -> None:
    first = actor(tmp_path, FakeWorkload(), config("a"))
    for _ in range(3):
        step(first)
    state = tmp_path / "a" / "epoch_0003" / "state.pt"
    state.write_bytes(state.read_bytes()[:5]) if damage == "cut" else state.unlink()
    second = actor(tmp_path, FakeWorkload(), config("a"))
    steps = [step(second) for _ in range(3)]
    assert [one.epoch for one in steps] == [2, 3, 4]
    assert [len(one.damage) for one in steps] == [1, 0, 0]
    assert steps[0].damage[0].startswith(str(state))
    assert json.loads(state.read_text())["epoch"] == 3


def test_divergence_and_refusal_are_answers_and_other_errors_are_raised(tmp_path: Path) -> None:
    diverging = actor(tmp_path, FakeWorkload(diverges_above=0.05), config("a"))
    step(diverging)
    assert step(diverging) == Step(2, diverged="train/loss is nan in epoch 2, step 17")
    failing = actor(tmp_path, FakeWorkload(fails_below=0.5), config("b"))
    step(failing)
    with pytest.raises(RuntimeError, match="no luck"):
        failing.step()
    assert step(actor(tmp_path, Told(), config("c"))) == Step(refused="pets: no such dataset")


@dataclass
class Told:
    """A workload that yields given metrics, notes how it was closed, or refuses."""

    metrics: dict[str, float] | None = None
    closed: list[str] = field(default_factory=list)

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        if self.metrics is None:
            raise DataError("pets: no such dataset")
        try:
            for epoch in range(1, 9):
                yield EpochReport(epoch, self.metrics, True, report(0.1, epoch).save)
        finally:
            self.closed.append("closed")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_no_number_is_divergence_and_gets_no_checkpoint(tmp_path: Path, value: float) -> None:
    made = actor(tmp_path, Told({"val/rsum": 1.0, "val/i2t_r1": value}), config("a"))
    assert step(made).diverged == f"val/i2t_r1 is {value} in epoch 1, step 0"
    assert not (tmp_path / "a").exists()


def test_a_workload_without_the_metric_is_refused(tmp_path: Path) -> None:
    refused = step(actor(tmp_path, Told({"val/loss": 1.0}), config("a"))).refused
    assert refused == "search.metric: a trial reports no 'val/rsum', but val/loss"


def test_the_next_trial_finds_nothing_of_the_former(tmp_path: Path) -> None:
    workload = Told({"val/rsum": 1.0})
    made = actor(tmp_path, workload, config("a"))
    step(made)
    assert made.reset_config(config("b"))
    assert workload.closed == ["closed"]
    assert step(made).epoch == 1
    made.cleanup()
    assert workload.closed == ["closed", "closed"]
    again = actor(tmp_path, FakeWorkload(), config("c", 0.05))
    step(again)
    again.reset_config(config("d", 0.2))
    assert step(again).metrics["val/rsum"] == curve(0.2, 1)
