"""Feasible coefficients against a fine grid, and the remedy that is named for others."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.errors import ConfigError
from trainables.parameter_values import DOMAINS, Kind, is_feasible, sign_problem

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


@settings(max_examples=200, deadline=None)
@given(coefficients=COEFFICIENTS, kind=st.sampled_from(KINDS))
def test_feasible_means_no_wrong_slope_and_so_is_the_named_remedy(coefficients: list[float], kind: Kind) -> None:
    problem = sign_problem(coefficients, kind, DOMAINS[kind])
    assert (problem is None) == is_feasible(coefficients, kind)
    smallest = smallest_slope(coefficients, kind)
    if abs(smallest) > 1e-4:
        assert (problem is None) == (smallest > 0)
    if problem is not None:
        assert str(tuple(coefficients)) in problem
        found = re.search(r"slope of (\S+) at (\S+): .* by (\S+)$", problem)
        assert found is not None
        slope, place, change = map(float, found.groups())
        exact = sum(power * number * place ** (power - 1) for power, number in enumerate(coefficients) if power)
        assert slope == pytest.approx(exact, rel=1e-4, abs=1e-4)
        sign = -1 if "lower" in problem else 1
        # The printed numbers have six digits.
        mended = [coefficients[0], coefficients[1] + sign * (change * 1.00001 + 1e-9), *coefficients[2:]]
        assert is_feasible(mended, kind)


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
def test_refused(coefficients: tuple[float, ...], kind: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        is_feasible(coefficients, kind)
