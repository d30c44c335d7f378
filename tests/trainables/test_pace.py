"""The pace of a training: its steps are counted as the loop takes them, and told apart from its evaluation."""

from typing import Any

import pytest
import torch

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables import cost
from trainables.cost import Pace, count_steps, measure_pace
from trainables.data.batches import ResidentSplit, epoch_batches


@pytest.mark.parametrize("batches", ["pairs", "images"])
@pytest.mark.parametrize("batch_size", [2, 7, 59, 60, 299, 300, 500])
def test_steps_are_those_of_an_epoch(batches: str, batch_size: int) -> None:
    data = tiny_dataset()
    training = tiny_config(batches=batches, batch_size=batch_size).training
    split = ResidentSplit(data.splits["train"], torch.device("cpu"), None)
    taken = list(epoch_batches(split, training, torch.Generator()))
    assert count_steps(data.splits["train"], training) == len(taken)


def test_steps_and_evaluation_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves 2 s a step, 1 s before the first, and 5 s an evaluation."""
    now = [0.0]

    class Slow:
        def __init__(self, *ignored: Any) -> None: ...

        def whole(self, steps: int) -> None:
            self.steps(steps)
            self.evaluation()

        def steps(self, steps: int) -> None:
            now[0] += 2 * steps + 1

        def evaluation(self) -> None:
            now[0] += 5

    monkeypatch.setattr(cost, "Trial", lambda *ignored: None)
    monkeypatch.setattr(cost, "Rehearsal", Slow)
    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    found = measure_pace(tiny_config(batch_size=30), tiny_dataset(), torch.device("cpu"), steps=4)
    assert found == Pace("cpu", steps=10, step_seconds=2.0, evaluation_seconds=5.0)
    assert found.epoch_seconds == 25.0


@pytest.mark.parametrize(
    ("seconds", "found", "times"),
    [([0.3, 0.1, 0.2, 0.15, 0.25], 0.1, 5), ([0.7, 0.6, 0.1], 0.6, 2), ([4.0, 1.0], 4.0, 1)],
    ids=["short", "longer", "long"],
)
def test_short_work_is_timed_again(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], found: float, times: int
) -> None:
    now, left = [0.0], list(seconds)

    def work() -> None:
        now[0] += left.pop(0)

    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    assert cost.quickest(work) == pytest.approx(found)
    assert len(seconds) - len(left) == times


def test_a_real_training_is_timed() -> None:
    found = measure_pace(tiny_config(), tiny_dataset(), torch.device("cpu"), steps=2)
    assert found.epoch_seconds > 0
