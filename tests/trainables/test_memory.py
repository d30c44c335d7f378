"""A rehearsal takes the steps it was told to, evaluates, and is measured from a clean start."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.cost.memory import measure_peak


class StepMeter:
    """Counts the steps of optimisers instead of bytes."""

    def __init__(self) -> None:
        self.steps = -1

    def reset(self) -> None:
        assert self.steps == -1
        self.steps = 0

    def peak(self) -> int:
        return self.steps

    def count(self, *ignored: object) -> None:
        self.steps += 1


@pytest.fixture
def meter() -> Iterator[StepMeter]:
    made = StepMeter()
    hook = register_optimizer_step_post_hook(made.count)
    yield made
    hook.remove()


@pytest.mark.parametrize("steps", [1, 3])
def test_so_many_steps_are_measured(meter: StepMeter, steps: int) -> None:
    config = tiny_config(batch_size=8)
    assert measure_peak(config, tiny_dataset(), torch.device("cpu"), meter, steps) == steps


def test_a_rehearsal_that_diverges_is_measured_all_the_same(meter: StepMeter) -> None:
    data = tiny_dataset()
    data.splits["train"].features[:] = math.nan
    assert measure_peak(tiny_config(batch_size=8), data, torch.device("cpu"), meter) == 0
