"""Losses that differ in their numbers, as one loss: each trial gets the value and gradient of its own."""

from typing import Any

import pytest
import torch

from trainables.losses import Loss, build_loss
from trainables.losses.parameters import loss_shape, stack_losses

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        pytest.param(
            "gradient_weights",
            [
                {"triplet_weight": "linear", "pair_weight": "linear", "slope": 2, "positive_tilt": 0.5},
                {"triplet_weight": "linear", "pair_weight": "linear", "margin": 0.7, "negative_tilt": 0, "scale": 0.1},
            ],
            id="gradient_weights",
        ),
        pytest.param(
            "polynomial_relative",
            [{"coefficients": (0.2, 1.0)}, {"coefficients": (0.1, 1.0, 0.3)}, {"coefficients": (0.5, 2.0, 0.0, 0.1)}],
            id="degrees",
        ),
        pytest.param(
            "polynomial_relative", [{"gate": 0.1, "coefficients": (0.2, 1.0, 2.0)}, {"gate": 0.5}], id="gates"
        ),
        pytest.param(
            "polynomial_self",
            [
                {"hinge": "separate", "positive_coefficients": (0.5, -0.7, 0.2)},
                {"hinge": "separate", "negative_coefficients": (0.03, -0.4, 0.9)},
            ],
            id="words that agree",
        ),
    ],
)
def test_each_trial_has_its_own_value_and_gradient(name: str, parameters: list[dict[str, Any]]) -> None:
    torch.manual_seed(0)
    losses = [build_loss(name, **each) for each in parameters]
    similarity = (torch.rand(len(losses), 6, 6) * 2 - 1).requires_grad_()
    positives = torch.eye(6, dtype=torch.bool)
    values = stack_losses(losses, CPU)(similarity, positives)
    (gradient,) = torch.autograd.grad(values.sum(), similarity)
    for place, loss in enumerate(losses):
        own = similarity.detach()[place].requires_grad_()
        value = loss(own, positives)
        torch.testing.assert_close(values[place], value)
        torch.testing.assert_close(gradient[place], torch.autograd.grad(value, own)[0])


def test_what_must_agree_is_told_apart_from_numbers() -> None:
    def shape(name: str, **parameters: Any) -> tuple[object, ...]:
        loss: Loss = build_loss(name, **parameters)
        return loss_shape(loss)

    assert shape("triplet", margin=0) == shape("triplet", margin=0.7)
    assert shape("triplet") != shape("triplet_sh")
    assert shape("polynomial_relative", coefficients=(0.1, 1)) == shape(
        "polynomial_relative", coefficients=(0.1, 1, 0.1)
    )
    assert shape("polynomial_relative", gate=0.1) != shape("polynomial_relative")
    assert shape("warp", direction="i2t") != shape("warp")
    assert shape("polynomial_self", hinge="separate") != shape("polynomial_self")
