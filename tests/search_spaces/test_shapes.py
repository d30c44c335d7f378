"""Shapes of slopes: each is feasible, and each feasible slope is a shape, where the Bernstein box leaves many out."""

from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.optimize import least_squares

from search_spaces import shapes
from search_spaces.bernstein import DEGREES
from search_spaces.shapes import CONSTANT, polynomial
from tests.search_spaces.studies import space_of
from trainables.parameter_values import DOMAINS, is_feasible

SELF = "polynomial_self"
DOMAIN = st.sampled_from([*sorted(set(DOMAINS.values())), (-0.2, 2.0), (2 / 9, 1.0)])
SHARES = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
POINTS = st.sampled_from(DEGREES).flatmap(
    lambda degree: st.tuples(st.just(degree), st.fixed_dictionaries(dict.fromkeys(CONSTANT[degree], SHARES)))
)


@given(POINTS, DOMAIN, st.floats(-1, 1), st.floats(0.1, 1000), st.booleans())
def test_every_point_is_feasible_and_has_the_value_and_the_mean_slope_that_were_asked_for(
    point: tuple[int, dict[str, float]], domain: tuple[float, float], constant: float, size: float, falls: bool
) -> None:
    degree, shape = point
    found = polynomial(constant, -size if falls else size, degree, shape, domain)
    assert is_feasible(found, "positive" if falls else "negative", domain)
    values = Polynomial(found)(np.array([0.0, *domain]))
    assert values[0] == pytest.approx(constant, abs=1e-11)
    assert (values[2] - values[1]) / (domain[1] - domain[0]) == pytest.approx(-size if falls else size, rel=1e-9)
    assert 2 <= len(found) <= 1 + degree


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("domain", sorted(set(DOMAINS.values())), ids=str)
def test_a_constant_slope_is_there_in_every_degree(degree: int, domain: tuple[float, float]) -> None:
    assert polynomial(25.6, 128.0, degree, CONSTANT[degree], domain) == (25.6, 128.0)


def slopes_of_mean_1(degree: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Feasible slopes, drawn without any parametrisation: uniform Chebyshev coefficients, those kept that are right.

    Returns:
        Values on ``GRID``, shape (count, points), each with the mean 1 over [0, 1].
    """
    found: list[np.ndarray] = []
    while len(found) < count:
        drawn = np.polynomial.chebyshev.chebval(2 * GRID - 1, rng.uniform(-1, 1, (degree, 1000)))
        found += [values / average(values) for values in drawn if values.min() >= 0]
    return np.array(found[:count])


GRID = np.linspace(0, 1, 201)


def average(values: np.ndarray) -> float:
    """Simpson's rule, exact for cubics."""
    weights = np.array([1, *[4, 2] * 99, 4, 1]) / 600
    return float(values @ weights)


def on_grid(degree: int, numbers: Any) -> np.ndarray:
    """The slope of a point, on ``GRID``."""
    shape = dict(zip(CONSTANT[degree], numbers, strict=True))
    coefficients = polynomial(0.0, 1.0, degree, shape, (0.0, 1.0))
    return np.asarray(Polynomial(coefficients).deriv()(GRID))


def is_reached(degree: int, wanted: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether some point is this slope, to a thousandth of its mean everywhere."""
    box = ([0.0] * (degree - 1), [1.0] * (degree - 1))
    for start in [np.array(list(CONSTANT[degree].values())), *rng.uniform(0.05, 0.95, (20, degree - 1))]:
        found = least_squares(lambda numbers: on_grid(degree, numbers) - wanted, start, bounds=box)
        if np.abs(on_grid(degree, found.x) - wanted).max() < 1e-3:
            return True
    return False


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_every_feasible_slope_is_a_point(degree: int) -> None:
    """99 % at least; what is missing would be the optimiser's, since the representation is exact."""
    rng = np.random.default_rng(degree)
    drawn = slopes_of_mean_1(degree, 100, rng)
    assert sum(is_reached(degree, slope, rng) for slope in drawn) >= 99


Two = tuple[float, float, int, list[dict[str, float]]]
"""A scale, a margin, a degree and two shapes."""

S = np.linspace(-1.0, 1.0, 2001)
SHARE = st.floats(0.0, 1.0)
INNER = st.floats(0.02, 0.98)


@st.composite
def shapes_of(draw: st.DrawFn, degree: int, share: st.SearchStrategy[float] = SHARE) -> dict[str, float]:
    return {name: draw(share) for name in shapes.CONSTANT[degree]}


@st.composite
def points(draw: st.DrawFn, share: st.SearchStrategy[float] = SHARE) -> Two:
    degree = draw(st.integers(1, 4))
    scale, margin = draw(st.floats(0.5, 512.0)), draw(st.floats(0.05, 1.0))
    return scale, margin, degree, [draw(shapes_of(degree, share)) for _ in range(2)]


GROWS = {2: "shape2", 3: "shape3_dip", 4: "shape4_hard"}
"""Degree -> the parameter on which it depends how much a slope grows, whatever the others are."""


def limits(degree: int, two: list[dict[str, float]]) -> tuple[float, float]:
    """Return the balances at which push and pull are equal at 1 and at -1."""
    (low, high), (push_low, push_high) = (shapes.ends(degree, shape) for shape in two)
    return high / push_high, low / push_low


def within(degree: int, two: list[dict[str, float]], widest: float) -> list[dict[str, float]]:
    """Halve the way of two shapes to the constant slope until a balance in [1 / widest, widest] suits both."""

    def suits(least: float, most: float) -> bool:
        return least > 1 / shapes.FARTHEST and most < shapes.FARTHEST and least < widest and most > 1 / widest

    while not suits(*sorted(limits(degree, two))):
        constant = shapes.CONSTANT[degree]
        two = [{name: (value + constant[name]) / 2 for name, value in shape.items()} for shape in two]
    return two


@st.composite
def pairs(draw: st.DrawFn) -> Two:
    """Draw a scale, a margin, a degree and two shapes, of which the second grows more and a balance suits both."""
    scale, margin = draw(st.floats(0.5, 512.0)), draw(st.floats(0.05, 1.0))
    degree = draw(st.integers(2, 4))
    first, second = (draw(shapes_of(degree, INNER)) for _ in range(2))
    least, most = limits(degree, [first, second])
    if abs(least / most - 1) < 1e-3:
        second[GROWS[degree]] /= 2
    two = within(degree, [first, second], shapes.WIDEST)
    least, most = limits(degree, two)
    return scale, margin, degree, two if least < most else two[::-1]


def lowest(polynomial: Polynomial) -> float:
    """Return the lowest value on [-1, 1]: at an end, or, to the accuracy of roots, where the derivative is 0."""
    flat = polynomial.deriv().roots()
    inside = [root.real for root in flat if abs(root.imag) < 1e-6 and -1 < root.real < 1]
    return float(min(polynomial(np.array([-1.0, 1.0, *inside]))))


@given(points(), SHARE)
def test_similarities_that_are_all_alike_cost_the_margin_at_least(point: Two, push: float) -> None:
    scale, margin, degree, two = point
    positive, negative = shapes.balanced_polynomials(scale, margin, degree, two, push)
    assert is_feasible(positive, "positive") and is_feasible(negative, "negative")
    # The margin is reached, not only kept: otherwise it would be a larger one.
    assert lowest(Polynomial(positive) + Polynomial(negative)) == pytest.approx(scale * margin, rel=1e-6)


@given(points(INNER), SHARE)
def test_at_the_ends_push_and_pull_lead_back_inside(point: Two, push: float) -> None:
    scale, margin, degree, two = point
    two = within(degree, two, shapes.FARTHEST)
    positive, negative = shapes.balanced_polynomials(scale, margin, degree, two, push)
    slope = (Polynomial(positive) + Polynomial(negative)).deriv()
    assert slope(-1.0) <= 1e-6 * scale and slope(1.0) >= -1e-6 * scale


@pytest.mark.parametrize(("degree", "broken"), [(1, (0, 0)), (2, (0, 0)), (3, (0.004, 0.010)), (4, (0.003, 0.008))])
def test_draws_break_the_rule_of_the_ends_as_rarely_as_the_page_says(degree: int, broken: tuple[float, float]) -> None:
    """docs/losses.md: at -1 by less than 0.1 x scale, at 1 by at most 6 x scale, and only where a limit is cut off."""
    random = np.random.default_rng(0)
    draws, low, high = 4_000, [], []
    for _ in range(draws):
        two = [{name: random.random() for name in shapes.CONSTANT[degree]} for _ in range(2)]
        positive, negative = shapes.balanced_polynomials(1.0, 0.2, degree, two, random.random())
        terms = [power * (a + b) for power, (a, b) in enumerate(zip_longest(positive, negative, fillvalue=0.0))][1:]
        at_low, at_high = (sum(term * x**place for place, term in enumerate(terms)) for x in (-1.0, 1.0))
        if max(at_low, -at_high) > 1e-9:
            ratios = [a / b for a, b in zip(*(shapes.ends(degree, shape) for shape in two), strict=True)]
            assert any(not 1 / shapes.FARTHEST <= ratio <= shapes.FARTHEST for ratio in ratios)
            low.append(at_low)
            high.append(-at_high)
    assert broken[0] <= len(low) / draws <= broken[1]
    assert max(low, default=0.0) < 0.1 and max(high, default=0.0) <= 6.0


@given(pairs(), INNER)
def test_every_pair_that_keeps_both_rules_is_a_point(point: Two, share: float) -> None:
    """Take a pair with a balance between its limits, found without the code: some ``push`` gives it."""
    scale, margin, degree, (first, second) = point
    least, most = limits(degree, [first, second])
    low, high = max(least, 1 / shapes.WIDEST), min(most, shapes.WIDEST)
    balance = low ** (1 - share) * high**share
    positive = Polynomial(shapes.polynomial(0.0, -scale, degree, first, shapes.SIMILARITIES))
    negative = Polynomial(shapes.polynomial(0.0, scale * balance, degree, second, shapes.SIMILARITIES))
    found = shapes.balanced_polynomials(scale, margin, degree, [first, second], share)
    assert Polynomial(found[1])(S) == pytest.approx(negative(S), rel=1e-9, abs=1e-9 * scale)
    lift = -lowest(positive + negative)
    assert Polynomial(found[0])(S) == pytest.approx(positive(S) + scale * margin + lift, rel=1e-6, abs=1e-6 * scale)
    # The order in which the two shapes are named makes no difference.
    assert shapes.balanced_polynomials(scale, margin, degree, [second, first], share) == found


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("push", [0.0, 0.5, 1.0])
def test_constant_slopes_are_the_triplet_loss_to_the_last_digit(degree: int, push: float) -> None:
    constant = shapes.CONSTANT[degree]
    expected = ((25.6, -128.0), (0.0, 128.0))
    assert shapes.balanced_polynomials(128.0, 0.2, degree, [constant, constant], push) == expected


def test_a_joint_hinge_is_searched_by_push_and_others_by_balance() -> None:
    assert "push" in space_of(SELF).bounds() and "balance" not in space_of(SELF).bounds()
    for older in (
        space_of(SELF, space={SELF: {"balance": "default"}}),
        space_of(SELF, fixed={SELF: {"hinge": "separate"}}),
        space_of(SELF, space={SELF: {"balance": [0.5, 2.0]}}),
    ):
        assert "balance" in older.bounds() and "push" not in older.bounds()
    assert str(space_of(SELF, space={SELF: {"balance": "default"}}).bounds()["balance"]) == "[0.25, 4] log"


def test_a_point_means_the_same_by_balance_and_by_push() -> None:
    both = {"scale": 100.0, "margin": 0.3, "degree": 2, "positive_shape2": 0.25, "negative_shape2": 0.75}
    space = space_of(SELF, space={SELF: {"balance": "default"}}).losses[SELF]
    positive = {"positive_coefficients": (30.0, -100.0, 25.0)}
    # The slopes are 1 - s / 2 and 2 (1 + s / 2), of mean 1 and 2.
    then = space.parameters_at({**both, "balance": 2.0})
    assert then == {**positive, "negative_coefficients": (0.0, 200.0, 50.0)}
    # With a balance of 1, W_a - W_b = -s^2 / 2, which is 0 at most: nothing is lifted.
    now = space_of(SELF).losses[SELF].parameters_at({**both, "push": 0.5})
    assert now == {**positive, "negative_coefficients": (0.0, 100.0, 25.0)}
