"""Circle, Multi-Similarity and weights in place of a loss."""

from typing import Any

import pytest
import torch
from torch import Tensor

from search_spaces import SPACES, Values
from search_spaces.space import Asked
from tests.trainables.losses.batches import one_to_one, random_cosines
from tests.trainables.losses.test_losses import value_and_gradient
from trainables.losses import build_loss
from trainables.losses.pair_weights import Circle, GradientWeights, MultiSimilarity


def test_pairs_beyond_their_optimum_have_no_weight() -> None:
    similarity = torch.tensor([[1.3, -0.9], [-0.9, 1.3]], dtype=torch.float64)
    assert not value_and_gradient(Circle(margin=0.25, scale=4.0), similarity, one_to_one(2))[1].any()


def test_a_pair_on_the_edge_is_left_out() -> None:
    similarity = torch.tensor([[0.5, 0.25], [0.0, 0.75]], dtype=torch.float64)
    for epsilon, counts in ((0.25, 0), (0.2500001, 2), (0.5, 2), (0.5000001, 4)):
        _, found = value_and_gradient(MultiSimilarity(epsilon=epsilon), similarity, one_to_one(2))
        assert (found != 0).sum() == counts


PAIRS = 6
CONSTANT = {"triplet_weight": "constant", "pair_weight": "constant"}
NT_XENT = {"triplet_weight": "softmax", "pair_weight": "constant", "negatives": "all"}

# A parabola e0 + e1 D + e2 D^2 with a zero at D = -margin has the slope (e1 - 2 e2 margin) + 2 e2 (D + margin).
MARGIN, RISE, BEND = 0.25, 0.7, 0.4
PARABOLA = (RISE * MARGIN + BEND * MARGIN**2, RISE + 2 * BEND * MARGIN, BEND)

OPEN_SELF = {"positive_coefficients": (2.0, -0.7, 0.2), "negative_coefficients": (1.0, 0.6, 0.2)}
"""Both hinges stay open: 2 - 0.7 s + 0.2 s^2 and 1 + 0.6 s + 0.2 s^2 are above 0 for every cosine."""
OF_PARABOLA = {"margin": MARGIN, "slope": 2 * BEND / RISE, "scale": RISE / PAIRS}
TILTS = {"positive_tilt": 0.4 / 0.7, "negative_tilt": 0.4, "balance": 1.0 / 0.7, "scale": 0.7 / PAIRS}
ALL, SHARP = {"negatives": "all"}, {"temperature": 0.07}
POINTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "triplet_sh": ("triplet_sh", {"margin": 0.3}, {**CONSTANT, "margin": 0.3}),
    "triplet": ("triplet", {"margin": 0.3}, {**CONSTANT, **ALL, "margin": 0.3}),
    "nt_xent": ("nt_xent", SHARP, {**NT_XENT, **SHARP, "scale": 1 / 0.07, "reduction": "mean"}),
    "nt_xent as a sum": ("nt_xent", SHARP, {**NT_XENT, **SHARP, "scale": 1 / (2 * PAIRS * 0.07)}),
    "polynomial_relative of degree 1": (
        "polynomial_relative",
        {"coefficients": (0.2, 1.0)},
        {**CONSTANT, "margin": 0.2, "scale": 1 / PAIRS},
    ),
    "polynomial_relative of degree 2": (
        "polynomial_relative",
        {"coefficients": PARABOLA, "gate": MARGIN},
        {**CONSTANT, "triplet_weight": "linear", **OF_PARABOLA},
    ),
    "polynomial_self with open hinges": (
        "polynomial_self",
        {**OPEN_SELF, "hinge": "separate", "gate": 0.2},
        {**CONSTANT, "pair_weight": "linear", "margin": 0.2, **TILTS},
    ),
}


def gradient(name: str, parameters: dict[str, Any], similarity: Tensor, positives: Tensor) -> Tensor:
    return value_and_gradient(build_loss(name, **parameters), similarity, positives)[1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("name", "parameters", "point"), POINTS.values(), ids=POINTS)
def test_a_point_of_the_family_has_the_gradient_of_the_loss(name, parameters, point, seed) -> None:
    similarity, positives = random_cosines(PAIRS, PAIRS, seed=seed), one_to_one(PAIRS)
    found = gradient("gradient_weights", point, similarity, positives)
    torch.testing.assert_close(found, gradient(name, parameters, similarity, positives), rtol=1e-9, atol=1e-9)
    assert found.any()


@pytest.mark.parametrize(("slope", "weight"), [(-2.0, 0.5), (-4.0, 0.0), (-8.0, 0.0)])
def test_a_falling_triplet_weight_ends_at_zero(slope: float, weight: float) -> None:
    """Similarities of 0.5 everywhere exceed a margin of 0.25 by 0.25, at which the weight is [1 + slope / 4]+."""
    loss = GradientWeights("linear", "constant", margin=0.25, slope=slope)
    _, found = value_and_gradient(loss, torch.full((2, 2), 0.5, dtype=torch.float64), one_to_one(2))
    assert found.tolist() == [[-2 * weight, 2 * weight], [2 * weight, -2 * weight]]


@pytest.mark.parametrize("triplet_weight", ["constant", "linear"])
@pytest.mark.parametrize(("negative", "weight"), [(0.25, 0.0), (0.375, 1.0)])
def test_a_triplet_at_the_margin_itself_has_no_weight(triplet_weight: Any, negative: float, weight: float) -> None:
    """A margin of 0.25 and similarities of 0.5 and 0.25 are exact in binary: the excess is 0 and not a rounding."""
    loss = GradientWeights(triplet_weight, "constant", margin=0.25, slope=0.0)
    similarity = torch.tensor([[0.5, negative], [negative, 0.5]], dtype=torch.float64)
    _, found = value_and_gradient(loss, similarity, one_to_one(2))
    assert found[0, 1].item() == 2 * weight


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("triplet_sh", {"margin": 0.3}), ("triplet", {"margin": 0.1}), ("nt_xent", {"temperature": 0.05})],
)
def test_the_space_holds_other_losses_as_points(name, parameters) -> None:
    space = SPACES["gradient_weights"].adapted(Asked(pairs=PAIRS))
    (point,) = space.within(space.twins(name, parameters))
    suggested = space.parameters_at(point)
    similarity, positives = random_cosines(PAIRS, PAIRS, seed=7), one_to_one(PAIRS)
    found = gradient("gradient_weights", suggested, similarity, positives)
    torch.testing.assert_close(found, gradient(name, parameters, similarity, positives), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fixed", [{"reduction": "mean"}, {"balance": 2.0}])
def test_no_other_loss_is_a_point_of_means_or_of_another_balance(fixed: dict[str, Any]) -> None:
    space = SPACES["gradient_weights"].adapted(Asked(frozenset(fixed), fixed, PAIRS)).narrowed({}, fixed)
    for name, parameters in (("triplet_sh", {"margin": 0.3}), ("nt_xent", {"temperature": 0.05})):
        assert space.twins(name, parameters) == ()


def test_numbers_of_choices_that_are_not_listed_are_not_searched() -> None:
    space = SPACES["gradient_weights"]
    listed = {"triplet_weight": Values(("softmax",)), "pair_weight": Values(("constant", "linear"))}
    kept = {"negatives", "triplet_weight", "pair_weight", "scale", "temperature", "positive_tilt", "negative_tilt"}
    assert set(space.narrowed(listed, {}).bounds) == kept


def test_the_space_is_conditional_until_both_choices_are_made() -> None:
    space = SPACES["gradient_weights"]
    made = {"triplet_weight": Values(("softmax",)), "pair_weight": Values(("sigmoid",))}
    assert space.is_conditional
    assert space.narrowed({"pair_weight": Values(("sigmoid",))}, {}).is_conditional
    assert not space.narrowed(made, {}).is_conditional
