"""The weight curves against autograd through the losses themselves."""

import dataclasses

import numpy as np
import pytest
import torch

from orchestrator.report.loss_figures import CURVES, POINTS, of_peak, weight_curves
from trainables.losses import LOSSES, build_loss

POSITIVES = torch.eye(2, dtype=torch.bool)
RELATIVE = [
    pytest.param("triplet", {"margin": 0.3}, id="triplet"),
    pytest.param("triplet_sh", {}, id="triplet_sh-defaults"),
    pytest.param("nt_xent", {"temperature": 0.07}, id="nt_xent"),
    pytest.param("smooth_ap", {"temperature": 0.05}, id="smooth_ap"),
    pytest.param("polynomial_relative", {"coefficients": [0.2, 1.0, 0.2]}, id="polynomial_relative"),
    pytest.param("polynomial_relative", {"coefficients": [0.5, 1.0, 0.3], "gate": 0.1}, id="polynomial_relative-gate"),
    pytest.param("warp", {"margin": 0.4}, id="warp"),
    pytest.param("decoupled", {"temperature": 0.3}, id="decoupled"),
    pytest.param("triplet_selhn", {"margin": 0.35, "epsilon": 0.2}, id="triplet_selhn"),
    pytest.param("gradient_weights", {"pair_weight": "constant", "temperature": 0.3}, id="gradient_weights-softmax"),
    pytest.param(
        "gradient_weights",
        {"triplet_weight": "linear", "pair_weight": "constant", "margin": 0.35, "slope": 2.0},
        id="gradient_weights-linear",
    ),
]
PAIRS = [
    pytest.param("sigmoid", {"temperature": 0.2, "bias": -1.0}, 0.0, 0.0, id="sigmoid"),
    pytest.param("multi_similarity", {"alpha": 3.0, "beta": 9.0, "epsilon": None}, 0.0, 0.0, id="multi_similarity"),
    # At these the factor that both weights of a pair share is 1.
    pytest.param("circle", {"margin": 0.25}, -1.0, 1.0, id="circle"),
    # The margin keeps every triplet, so that its weight is 1.
    pytest.param("gradient_weights", {"triplet_weight": "constant", "margin": 2.0}, 0.0, 0.0, id="gradient_weights"),
    pytest.param(
        "gradient_weights",
        {"triplet_weight": "constant", "pair_weight": "linear", "margin": 2.0, "negative_tilt": 0.4, "balance": 0.5},
        0.0,
        0.0,
        id="gradient_weights-linear-pairs",
    ),
]


def pull(loss: str, parameters: dict[str, object], positive: float, negative: float, row: int, column: int) -> float:
    """Return the gradient of the loss of two images and two captions at one similarity."""
    similarity = torch.tensor([[positive, negative], [negative, positive]], dtype=torch.float64, requires_grad=True)
    build_loss(loss, **parameters)(similarity, POSITIVES).backward()
    return float(similarity.grad[row, column])


def normalised(values: list[float] | np.ndarray) -> np.ndarray:
    return np.array(values) / np.abs(values).max()


@pytest.mark.parametrize(("loss", "parameters"), RELATIVE)
def test_curve_over_the_difference_is_the_gradient_at_the_negative(loss: str, parameters: dict[str, object]) -> None:
    # By symmetry the image and the caption of a negative pull it alike, so the shape is that of one query. None of the
    # points lies on a margin, where rounding decides.
    ((of, weights),) = weight_curves(loss, parameters).items()
    expected = [pull(loss, parameters, 0.0, float(delta), 0, 1) for delta in POINTS[2::5]]
    assert of == "difference"
    np.testing.assert_allclose(normalised(expected), normalised(weights[2::5]), atol=1e-9)


@pytest.mark.parametrize("hinge", ["joint", "separate"])
def test_curves_of_polynomial_self_are_the_gradients_at_positive_and_negative(hinge: str) -> None:
    # The constants keep the joint hinge active wherever the curves are drawn.
    offset = 3.0 if hinge == "joint" else 0.5
    coefficients = {"positive_coefficients": [offset, -0.7, 0.2], "negative_coefficients": [0.03, 0.4, 0.1]}
    parameters = {**coefficients, "hinge": hinge}
    curves = weight_curves("polynomial_self", parameters)
    at = POINTS[1:-1:6]
    pulled = [-pull("polynomial_self", parameters, float(s), 0.9, 0, 0) for s in at]
    pushed = [pull("polynomial_self", parameters, 0.0, float(s), 0, 1) for s in at]
    np.testing.assert_allclose(curves["positive"][1:-1:6], pulled, atol=1e-9)
    np.testing.assert_allclose(curves["negative"][1:-1:6], pushed, atol=1e-9)


@pytest.mark.parametrize(("loss", "parameters", "other_positive", "other_negative"), PAIRS)
def test_curves_over_similarities_are_the_gradients_at_positive_and_negative(
    loss: str, parameters: dict[str, object], other_positive: float, other_negative: float
) -> None:
    curves = weight_curves(loss, parameters)
    at = POINTS[1:-1:6]
    pulled = [-pull(loss, parameters, float(s), other_negative, 0, 0) for s in at]
    pushed = [pull(loss, parameters, other_positive, float(s), 0, 1) for s in at]
    np.testing.assert_allclose(normalised(curves["positive"][1:-1:6]), normalised(pulled), atol=1e-9)
    np.testing.assert_allclose(normalised(curves["negative"][1:-1:6]), normalised(pushed), atol=1e-9)


@pytest.mark.parametrize("loss", sorted(CURVES))
def test_left_out_parameters_have_the_defaults_of_the_loss(loss: str) -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(LOSSES[loss])}
    for left_out, given in zip(weight_curves(loss, {}).values(), weight_curves(loss, defaults).values(), strict=True):
        assert np.array_equal(left_out, given)


def test_curves_are_of_losses_and_others_have_none() -> None:
    assert set(CURVES) <= set(LOSSES)
    assert weight_curves("somebody_elses", {}) == {}


def test_there_is_no_curve_of_a_negative_that_is_weighed_by_its_hardness() -> None:
    assert weight_curves("nt_xent", {"temperature": 0.1, "hardness": 9.0}) == {}
    assert weight_curves("nt_xent", {"temperature": 0.1, "hardness": 0.0}).keys() == {"difference"}


def test_infeasible_polynomial_pulls_the_wrong_way_below_zero() -> None:
    parameters = {"negative_coefficients": [0.03, -0.4, 0.9], "hinge": "separate"}
    negative = weight_curves("polynomial_self", parameters)["negative"]
    assert negative.min() < 0 < negative.max()


def test_flat_polynomial_has_no_peak_to_divide_by() -> None:
    weights, peak = of_peak(weight_curves("polynomial_relative", {"coefficients": [0.5]})["difference"])
    assert peak == 0
    assert not weights.any()
    halved, peak = of_peak(np.array([1.0, -2.0]))
    assert (halved.tolist(), peak) == ([0.5, -1.0], 2.0)
