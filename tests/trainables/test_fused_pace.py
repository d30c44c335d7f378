"""How many trials to train at once: measured as they train, and only where they can be stacked."""

import math

import pytest
import torch

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables import fused_pace
from trainables.fused_pace import measure_rates
from trainables.models import VSEPP
from trainables.pace import Pace

CPU = torch.device("cpu")


def test_more_trials_are_tried_while_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """By steps that take so long that evaluation and noise do not count."""
    monkeypatch.setattr(fused_pace, "measure_pace", lambda *ignored: Pace("cpu", 19, 1.0, 0.0))
    monkeypatch.setattr(fused_pace, "_step_seconds", lambda trials: {2: 1.0, 4: 1.0, 8: 2.0, 16: 1.0}[len(trials)])
    rates = measure_rates(tiny_config(), tiny_dataset(), CPU, (2, 4, 8, 16))
    assert {trials: rate / rates[1] for trials, rate in rates.items()} == pytest.approx({1: 1, 2: 2, 4: 4, 8: 4})


def test_a_step_of_stacked_trials_is_timed() -> None:
    rates = measure_rates(tiny_config(), tiny_dataset(), CPU, (2,))
    assert list(rates) == [1, 2]
    assert all(0 < rate < math.inf for rate in rates.values())


def test_what_cannot_be_stacked_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VSEPP, "can_stack", False)
    assert list(measure_rates(tiny_config(), tiny_dataset(), CPU, (2,))) == [1]
