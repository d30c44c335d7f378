import math

import pytest
import torch

from trainables.errors import DivergedError
from trainables.trial import StepLosses

LOSSES = [3.0, 1.5, 0.25, 7.0, 2.0]


@pytest.mark.parametrize("unread", [None, 1, 2, 5, 100])
def test_mean_is_that_of_all_steps(unread: int | None) -> None:
    losses = StepLosses(epoch=1, unread=unread)
    for value in LOSSES:
        losses.add(torch.tensor(value, requires_grad=True))
    assert losses.mean() == sum(LOSSES) / len(LOSSES)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(("unread", "seen_at"), [(None, 3), (1, 3), (2, 4), (5, 5), (100, None)])
def test_the_first_step_that_is_not_finite_is_named(bad: float, unread: int | None, seen_at: int | None) -> None:
    losses = StepLosses(epoch=7, unread=unread)
    with pytest.raises(DivergedError) as raised:
        for step, value in enumerate([3.0, 1.5, bad, bad, 2.0], start=1):
            current = step
            losses.add(torch.tensor(value))
        current = None
        losses.mean()
    assert (raised.value.epoch, current) == (7, seen_at)
    assert "step 3" in str(raised.value)
