"""Feasible coefficients, and the nearest ones, against a fine grid and a general solver."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from trainables.errors import ConfigError
from trainables.feasibility import DOMAINS, Kind, is_feasible, nearest_feasible

KINDS: tuple[Kind, ...] = ("positive", "negative", "relative")
COEFFICIENTS = st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=1, max_size=5)


def smallest_slope(coefficients: tuple[float, ...] | list[float], kind: Kind, points: int = 4001) -> float:
    """The slope in its right direction, at the point of a fine grid where it is most wrong."""
    low, high = DOMAINS[kind]
    x = np.linspace(low, high, points)
    slope = sum((p * c * x ** (p - 1) for p, c in enumerate(coefficients) if p), np.zeros_like(x))
    return float((-slope if kind == "positive" else slope).min())


@pytest.mark.parametrize(
    ("coefficients", "kind", "feasible"),
    [
        ((0.2, -1.0), "positive", True),
        ((0.5, -0.7, 0.2), "positive", True),
        ((0.5, -0.3, 0.2), "positive", False),
        ((0.0, 1.0), "negative", True),
        ((0.03, -0.4, 0.9), "negative", False),
        ((0.2, 1.0, 0.5), "relative", True),
        ((0.2, 1.0, 0.51), "relative", False),
        ((0.2, 1.0, -0.25), "relative", True),
        ((0.2, 1.0, -0.26), "relative", False),
        ((0.2,), "relative", True),
        ((0.0, 0.0, 0.0, 1.0), "negative", True),
        ((0.0, 0.25, -0.5, 1 / 3), "negative", True),
        ((0.0, 0.24, -0.5, 1 / 3), "negative", False),
    ],
    ids=str,
)
def test_known_vectors(coefficients: tuple[float, ...], kind: Kind, feasible: bool) -> None:
    assert is_feasible(coefficients, kind) == feasible


def test_the_domain_can_be_given() -> None:
    assert not is_feasible((0.2, 1.0, 1.0), "relative")
    assert is_feasible((0.2, 1.0, 1.0), "relative", (-0.2, 2.0))
    assert nearest_feasible((0.2, 1.0, 1.0), "relative", (-0.2, 2.0)) == (0.2, 1.0, 1.0)


@settings(max_examples=200, deadline=None)
@given(coefficients=COEFFICIENTS, kind=st.sampled_from(KINDS))
def test_feasible_means_no_wrong_slope_anywhere(coefficients: list[float], kind: Kind) -> None:
    slope = smallest_slope(coefficients, kind)
    if abs(slope) > 1e-4:
        assert is_feasible(coefficients, kind) == (slope > 0)


@settings(max_examples=100, deadline=None)
@given(coefficients=COEFFICIENTS, kind=st.sampled_from(KINDS))
def test_the_nearest_is_feasible_and_keeps_what_is(coefficients: list[float], kind: Kind) -> None:
    nearest = nearest_feasible(coefficients, kind)
    assert is_feasible(nearest, kind)
    assert smallest_slope(nearest, kind) > -1e-6
    assert nearest[0] == coefficients[0]
    if is_feasible(coefficients, kind):
        assert nearest == tuple(coefficients)


@settings(max_examples=50, deadline=None)
@given(coefficients=COEFFICIENTS, kind=st.sampled_from(KINDS), seed=st.integers(0, 99))
def test_no_feasible_vector_is_nearer(coefficients: list[float], kind: Kind, seed: int) -> None:
    """For a projection on a convex set, (start - nearest) . (other - nearest) <= 0 for every other point of it."""
    nearest = nearest_feasible(coefficients, kind)
    rng = random.Random(seed)
    other = nearest_feasible([rng.uniform(-5, 5) for _ in coefficients], kind)
    product = sum((a - b) * (c - b) for a, b, c in zip(coefficients, nearest, other, strict=True))
    assert product <= 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_the_nearest_is_what_a_general_solver_finds(degree: int, kind: Kind) -> None:
    rng = np.random.default_rng(degree)
    low, high = DOMAINS[kind]
    x = np.linspace(low, high, 201)
    powers = np.arange(1, degree + 1)
    normals = (-1 if kind == "positive" else 1) * powers * x[:, None] ** (powers - 1)
    for _ in range(5):
        start = rng.uniform(-2, 2, degree + 1)
        solved = minimize(
            lambda c, start=start: ((c - start[1:]) ** 2).sum(),
            np.zeros(degree),
            jac=lambda c, start=start: 2 * (c - start[1:]),
            constraints={"type": "ineq", "fun": lambda c: normals @ c, "jac": lambda c: normals},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        nearest = nearest_feasible(start.tolist(), kind)
        # The solver's points leave gaps, in which its slope may be a little wrong, and so a little nearer.
        assert -1e-6 < math.dist(nearest, start) - math.sqrt(solved.fun) < 1e-3


def test_nearest_distances_grow_with_the_violation() -> None:
    distances = [math.dist(nearest_feasible(v, "negative"), v) for v in ((0.0, 1.0, b / 4) for b in range(9))]
    assert distances[0] == 0
    assert all(a <= b for a, b in pairwise(distances))


@pytest.mark.parametrize("function", [is_feasible, nearest_feasible])
@pytest.mark.parametrize(
    ("coefficients", "kind", "message"),
    [
        ((), "relative", "one or more finite numbers"),
        ((0.2, math.nan), "relative", r"finite numbers, ascending powers, got \(0.2, nan\)"),
        ((0.2, math.inf), "positive", "got .*inf"),
        ((0.2, 1.0), "both", "kind must be one of positive, negative, relative, got 'both'"),
    ],
    ids=["none", "NaN", "infinite", "unknown kind"],
)
def test_refused(function: object, coefficients: tuple[float, ...], kind: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        function(coefficients, kind)  # type: ignore[operator]
