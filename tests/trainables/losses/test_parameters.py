"""Losses that differ in their numbers, as one loss: each trial gets the value and gradient of its own."""

from typing import Any

import pytest
import torch

from tests.trainables.losses.batches import five_each, random_cosines
from tests.trainables.losses.test_directions import WITH_NEGATIVES
from tests.trainables.losses.test_losses import value_and_gradient
from trainables.losses import build_loss
from trainables.losses.parameters import loss_shape, stack_losses

LINEAR = {"triplet_weight": "linear", "pair_weight": "linear"}
DEGREES = [(0.2, 1.0), (0.1, 1.0, 0.3), (0.5, 2.0, 0.0, 0.1)]
TOGETHER: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "gradient_weights": (
        "gradient_weights",
        [{**LINEAR, "slope": 2, "positive_tilt": 0.5}, {**LINEAR, "margin": 0.7, "negative_tilt": 0, "scale": 0.1}],
    ),
    "degrees": ("polynomial_relative", [{"coefficients": one} for one in DEGREES]),
    "gates": ("polynomial_relative", [{"gate": 0.1, "coefficients": (0.2, 1.0, 2.0)}, {"gate": 0.5}]),
    "words that agree": (
        "polynomial_self",
        [
            {"hinge": "separate", "positive_coefficients": (0.5, -0.7, 0.2)},
            {"hinge": "separate", "negative_coefficients": (0.03, -0.4, 0.9)},
        ],
    ),
    "ranks up to": ("warp", [{"margin": 0.5, "rank_weight": "top_k", "top": top} for top in (1, 2, 64)]),
    **{
        f"{name} of some negatives": (name, [{**parameters, "negatives": count} for count in (1, 3, 2, 64)])
        for name, parameters in WITH_NEGATIVES.items()
    },
}


@pytest.mark.parametrize(("name", "parameters"), TOGETHER.values(), ids=TOGETHER)
def test_each_trial_has_its_own_value_and_gradient(name: str, parameters: list[dict[str, Any]]) -> None:
    losses = [build_loss(name, **each) for each in parameters]
    # With ties at the k-th place: the choice of a trial may not depend on its neighbours' counts.
    scores = (random_cosines(len(losses), 6, 12, seed=23, dtype=torch.float32) * 4).round() / 4
    stacked = value_and_gradient(stack_losses(losses, scores.device), scores, five_each(6, 2))
    for trial, loss in enumerate(losses):
        alone = value_and_gradient(loss, scores[trial], five_each(6, 2))
        torch.testing.assert_close(tuple(part[trial] for part in stacked), alone, rtol=1e-6, atol=1e-6)


def test_what_must_agree_is_told_apart_from_numbers() -> None:
    def shape(name: str, **parameters: Any) -> tuple[object, ...]:
        return loss_shape(build_loss(name, **parameters))

    assert shape("triplet", margin=0) == shape("triplet", margin=0.7)
    assert shape("triplet") != shape("triplet_sh")
    three = shape("polynomial_relative", coefficients=(0.1, 1, 0.1))
    assert shape("polynomial_relative", coefficients=(0.1, 1)) == three
    assert shape("polynomial_relative", gate=0.1) != shape("polynomial_relative")
    assert shape("warp", direction="i2t") != shape("warp")
    assert shape("polynomial_self", hinge="separate") != shape("polynomial_self")
    for name, parameters in WITH_NEGATIVES.items():
        one, three, every = (shape(name, **parameters, negatives=count) for count in (1, 3, "all"))
        assert one == three != every
