from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import batches, one_to_one, random_cosines
from trainables.errors import ConfigError
from trainables.losses.polynomial import PolynomialRelative, PolynomialSelf
from trainables.losses.triplet import TripletHardest

MARGINS = st.floats(0, 2)


@settings(max_examples=40, deadline=None)
@given(batch=batches(), margin=MARGINS)
def test_linear_polynomials_are_the_hardest_triplets_over_n(
    batch: tuple[Tensor, Tensor, Tensor], margin: float
) -> None:
    expected = TripletHardest(margin)(*batch) / batch[1].sum()
    joint = PolynomialSelf((margin / 2, -1.0), (margin / 2, 1.0))
    for loss in (joint, PolynomialRelative((margin, 1.0)), PolynomialRelative((margin, 1.0, 0.0), gate=margin)):
        torch.testing.assert_close(loss(*batch), expected, rtol=1e-9, atol=1e-12)


def test_the_gate_bounds_where_coefficients_must_be_feasible() -> None:
    with pytest.raises(ConfigError, match="must rise"):
        PolynomialRelative((0.2, 1.0, 1.0))
    assert PolynomialRelative((0.2, 1.0, 1.0), gate=0.5).coefficients == (0.2, 1.0, 1.0)
    with pytest.raises(ConfigError, match=r"on \[-2, 2\]"):
        PolynomialRelative((0.2, 1.0, 0.5), gate=2.0)


CONSTANTS = [
    pytest.param(PolynomialRelative, {"coefficients": (0.5,)}, "coefficients must hold", id="relative"),
    pytest.param(PolynomialRelative, {"coefficients": torch.ones(3, 1)}, "coefficients must hold", id="stacked"),
    pytest.param(
        PolynomialSelf,
        {"positive_coefficients": (0.5,), "negative_coefficients": (0.1,)},
        "positive_coefficients and negative_coefficients must hold",
        id="self",
    ),
    pytest.param(
        PolynomialSelf,
        {"positive_coefficients": (0.5,), "negative_coefficients": (0.1,), "hinge": "separate"},
        "positive_coefficients and negative_coefficients must hold",
        id="two hinges",
    ),
]


@pytest.mark.parametrize(("loss", "parameters", "message"), CONSTANTS)
def test_constants_are_refused(loss: type, parameters: dict[str, Any], message: str) -> None:
    """They used to be taken, and their backward pass failed for want of a graph."""
    with pytest.raises(ConfigError, match=f"{message} a coefficient of power 1 or above.*a constant has no gradient"):
        loss(**parameters, allow_infeasible=True)


@pytest.mark.parametrize("parameters", [((0.5,), (0.0, 1.0)), ((0.2, -1.0), (0.1,))], ids=["negative", "positive"])
def test_one_polynomial_of_two_may_be_a_constant(parameters: tuple[Any, Any]) -> None:
    similarity = random_cosines(3, 3, seed=1).requires_grad_()
    PolynomialSelf(*parameters)(similarity, one_to_one(3)).backward()
    assert similarity.grad is not None and similarity.grad.any()
