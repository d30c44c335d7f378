"""A rehearsal takes the steps it was told to, evaluates, and is measured from a clean start."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.cost import STEPS, Rehearsal
from trainables.trial import Trial


@pytest.fixture
def taken() -> Iterator[list[None]]:
    """An entry for each step of an optimiser."""
    steps: list[None] = []
    hook = register_optimizer_step_post_hook(lambda *ignored: steps.append(None))
    yield steps
    hook.remove()


@pytest.mark.parametrize("steps", [1, 3])
def test_so_many_steps_are_measured(taken: list[None], steps: int) -> None:
    Rehearsal(Trial(tiny_config(batch_size=8), tiny_dataset(), torch.device("cpu"))).whole(steps)
    assert len(taken) == steps


def test_a_rehearsal_that_diverges_is_measured_all_the_same(taken: list[None]) -> None:
    data = tiny_dataset()
    data.splits["train"].features[:] = math.nan
    Rehearsal(Trial(tiny_config(batch_size=8), data, torch.device("cpu"))).whole(STEPS)
    assert not taken
