"""Shapes of slopes: each is feasible, and each feasible slope is a shape, where the Bernstein box leaves many out."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.optimize import least_squares

from search_spaces.bernstein import DEGREES
from search_spaces.shapes import CONSTANT, polynomial
from trainables.feasibility import DOMAINS, is_feasible

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


@pytest.mark.parametrize(("degree", "outside"), [(2, 0.0), (3, 0.46), (4, 0.78)])
def test_the_bernstein_box_leaves_out_what_the_page_says(degree: int, outside: float) -> None:
    rng = np.random.default_rng(0)
    basis = [math.comb(degree - 1, k) * GRID**k * (1 - GRID) ** (degree - 1 - k) for k in range(degree)]
    weights, *_ = np.linalg.lstsq(np.array(basis).T, slopes_of_mean_1(degree, 2000, rng).T, rcond=None)
    assert (weights.min(axis=0) < -1e-9).mean() == pytest.approx(outside, abs=0.03)
