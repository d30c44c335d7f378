"""What single losses promise beside the contract of all: values by hand, limits, edges and refusals."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.losses.batches import STRUCTURES, one_to_one, random_cosines
from tests.trainables.losses.test_losses import value_and_gradient
from trainables.errors import ConfigError
from trainables.losses.contrastive import Decoupled, NTXent, Sigmoid
from trainables.losses.polynomial import PolynomialRelative, PolynomialSelf
from trainables.losses.triplet import Triplet, TripletHardest, TripletSelHN


def test_of_equally_hard_negatives_one_gets_the_gradient_and_with_selhn_all() -> None:
    hardest, near = (
        value_and_gradient(loss, torch.full((4, 4), 0.9, dtype=torch.float64), one_to_one(4))[1]
        for loss in (TripletHardest(), TripletSelHN())
    )
    assert hardest.diagonal().tolist() == [-2, -2, -2, -2]
    assert hardest[~one_to_one(4)].sum() == 8
    assert set(hardest[~one_to_one(4)].tolist()) <= {0.0, 1.0, 2.0}
    assert (near > 0).sum() == 12


def test_each_query_decides_for_itself() -> None:
    """Query 0 is on its hardest negative, 0.0 away; query 1 is 0.5 above its own; at epsilon itself nothing is near."""
    similarity = torch.tensor([[0.5, 0.5, 0.0], [-0.5, 0.0, -0.5], [0.0, 0.25, 0.25]], dtype=torch.float64)
    i2t = (0.25 + 0.0) / 2 + 0.0 + (0.0 + 0.25) / 2
    t2i = 0.0 + 0.75 + 0.0
    value = TripletSelHN(margin=0.25, epsilon=0.1)(similarity, one_to_one(3))
    assert value.item() == pytest.approx(i2t + t2i, abs=1e-12)
    edge = torch.tensor([[0.5, 0.25, 0.0], [0.0, 0.5, 0.25], [0.25, 0.0, 0.5]], dtype=torch.float64)
    hardest, mean = TripletHardest(0.5)(edge, one_to_one(3)), Triplet(0.5)(edge, one_to_one(3)) / 2
    assert TripletSelHN(0.5, epsilon=0.25)(edge, one_to_one(3)) == hardest
    assert TripletSelHN(0.5, epsilon=0.2500001)(edge, one_to_one(3)) == mean != hardest


def test_a_huge_right_score_costs_nothing() -> None:
    assert NTXent(0.01)(torch.eye(4) * 1e4, one_to_one(4)) == 0


def test_a_query_without_negatives_costs_nothing() -> None:
    value, gradient = value_and_gradient(Decoupled(), random_cosines(2, 3, seed=4), STRUCTURES["no_negatives"])
    assert value == 0 and not gradient.any()


def test_pairs_are_counted_as_published() -> None:
    """Algorithm 1 of the paper in numpy: - log sigmoid(label (t s + b)), summed over pairs, over the batch size."""
    similarity = random_cosines(6, 6, seed=1)
    labels = 2 * np.eye(6) - 1
    logits = 7.0 * similarity.numpy() - 3.0
    expected = -np.log(1 / (1 + np.exp(-labels * logits))).sum() / 6
    assert Sigmoid(temperature=1 / 7, bias=-3.0)(similarity, one_to_one(6)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("bias", "score"), [(-1e4, 1.0), (1e4, -1.0)])
def test_a_bias_far_out_does_not_overflow(bias: float, score: float) -> None:
    value = Sigmoid(temperature=0.01, bias=bias)(torch.full((3, 3), score), one_to_one(3))
    assert math.isfinite(value.item())
    assert value > 1e3


def test_the_gate_bounds_where_coefficients_must_be_feasible() -> None:
    with pytest.raises(ConfigError, match="must rise"):
        PolynomialRelative((0.2, 1.0, 1.0))
    assert PolynomialRelative((0.2, 1.0, 1.0), gate=0.5).coefficients == (0.2, 1.0, 1.0)
    with pytest.raises(ConfigError, match=r"on \[-2, 2\]"):
        PolynomialRelative((0.2, 1.0, 0.5), gate=2.0)


BOTH = {"positive_coefficients": (0.5,), "negative_coefficients": (0.1,)}
CONSTANTS: dict[str, tuple[type, dict[str, Any]]] = {
    "relative": (PolynomialRelative, {"coefficients": (0.5,)}),
    "stacked": (PolynomialRelative, {"coefficients": torch.ones(3, 1)}),
    "self": (PolynomialSelf, BOTH),
    "two hinges": (PolynomialSelf, {**BOTH, "hinge": "separate"}),
}


@pytest.mark.parametrize(("loss", "parameters"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants_are_refused(loss: type, parameters: dict[str, Any]) -> None:
    """They used to be taken, and their backward pass failed for want of a graph."""
    named = " and ".join(name for name in parameters if name != "hinge")
    wanted = f"{named} must hold a coefficient of power 1 or above.*a constant has no gradient"
    with pytest.raises(ConfigError, match=wanted):
        loss(**parameters, allow_infeasible=True)


@pytest.mark.parametrize("parameters", [((0.5,), (0.0, 1.0)), ((0.2, -1.0), (0.1,))], ids=["negative", "positive"])
def test_one_polynomial_of_two_may_be_a_constant(parameters: tuple[Any, Any]) -> None:
    assert value_and_gradient(PolynomialSelf(*parameters), random_cosines(3, 3, seed=1), one_to_one(3))[1].any()
