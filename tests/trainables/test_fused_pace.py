"""How many trials to train at once: measured as they train, and only where they can be stacked."""

import math

import pytest
import torch

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables import cost
from trainables.cost import Pace, choose_fusion, measure_rates
from trainables.models import VSEPP

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("seconds", "rates"),
    [
        ({2: 1.0, 4: 1.0, 8: 2.0, 16: 1.0}, {1: 1, 2: 2, 4: 4, 8: 4, 16: 16}),
        ({2: 2.0, 4: 4.0, 8: 1.0}, {1: 1, 2: 1, 4: 1}),
        ({2: 4.0, 4: 1.0}, {1: 1, 2: 0.5}),
    ],
    ids=["a step that does not pay", "two that do not", "one that costs"],
)
def test_more_trials_are_tried_while_they_pay(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], rates: dict[int, float]
) -> None:
    monkeypatch.setattr(cost, "measure_pace", lambda *ignored: Pace("cpu", 19, 1.0, 0.0))
    monkeypatch.setattr(cost, "_stacked_step_seconds", lambda trials: seconds[len(trials)])
    found = measure_rates(tiny_config(), tiny_dataset(), CPU, tuple(seconds))
    assert {trials: rate / found[1] for trials, rate in found.items()} == pytest.approx(rates)


def test_a_step_of_stacked_trials_is_timed() -> None:
    rates = measure_rates(tiny_config(), tiny_dataset(), CPU, (2,))
    assert list(rates) == [1, 2]
    assert all(0 < rate < math.inf for rate in rates.values())


def test_what_cannot_be_stacked_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VSEPP, "can_stack", False)
    assert list(measure_rates(tiny_config(), tiny_dataset(), CPU, (2,))) == [1]


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({1: 10.0}, 1),
        ({1: 10.0, 4: 9.0}, 1),
        ({1: 10.0, 4: 10.5, 16: 10.9}, 1),
        ({1: 10.0, 4: 30.0, 16: 90.0, 64: 91.0}, 16),
        ({1: 10.0, 4: 10.5, 16: 11.5}, 16),
    ],
    ids=["nothing to fuse", "slower", "hardly faster", "until it ends to pay", "in two small steps"],
)
def test_as_many_are_fused_as_gain_by_it(rates: dict[int, float], chosen: int) -> None:
    assert choose_fusion(rates) == chosen
