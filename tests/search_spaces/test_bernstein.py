"""Slopes and listed coefficients: no point pulls the wrong way, and the slopes are those that were asked for."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from search_spaces import SPACES, LossSpace, SpaceError, StudySpace, Values
from search_spaces.bernstein import BERNSTEIN_RELATIVE, BERNSTEIN_SELF, DEGREES, coefficients
from tests.search_spaces.studies import experiment, space_of
from trainables.errors import ConfigError
from trainables.losses.polynomial import PolynomialRelative, PolynomialSelf
from trainables.parameter_values import DOMAINS, is_feasible

WEIGHTS = st.lists(st.floats(0, 2), min_size=1, max_size=4)
KINDS = st.sampled_from(sorted(DOMAINS))


def slope(polynomial: tuple[float, ...], x: float) -> float:
    return sum(power * number * x ** (power - 1) for power, number in enumerate(polynomial) if power)


@given(st.floats(0, 0.5), WEIGHTS, KINDS)
@example(0.0, [0.0, 0.0, 2.0**-14, 0.0], "negative")
def test_every_point_pulls_the_right_way(offset: float, weights: list[float], kind: Any) -> None:
    polynomial = coefficients(offset, weights, kind)
    assert is_feasible(polynomial, kind)
    assert polynomial[0] == offset and 2 <= len(polynomial) <= 1 + len(weights)


@given(WEIGHTS, KINDS)
def test_the_slope_is_the_bernstein_sum(weights: list[float], kind: Any) -> None:
    low, high = DOMAINS[kind]
    sign, n = (-1 if kind == "positive" else 1), len(weights) - 1
    polynomial = coefficients(0.2, weights, kind)
    for step in range(11):
        t = step / 10
        wanted = sum(w * math.comb(n, k) * t**k * (1 - t) ** (n - k) for k, w in enumerate(weights))
        assert slope(polynomial, low + t * (high - low)) * sign == pytest.approx(wanted, abs=1e-9)


SLOPES = {"polynomial_self": BERNSTEIN_SELF, "polynomial_relative": BERNSTEIN_RELATIVE}


def of_degrees(name: str, *degrees: int) -> LossSpace:
    return SLOPES[name].narrowed({"degree": Values(degrees)}, {})


DEFAULTS = {
    "polynomial_relative": {"coefficients": (0.2, 1.0)},
    "polynomial_self": {"positive_coefficients": (0.2, -1.0), "negative_coefficients": (0.0, 1.0)},
}


@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("degree", DEGREES)
def test_the_published_default_is_there_in_every_degree(name: str, degree: int) -> None:
    space = of_degrees(name, degree)
    (point,) = space.first_points()
    found = space.suggest(FixedTrial(dict(point)))
    assert found == DEFAULTS[name]


@pytest.mark.parametrize(("name", "sides"), [("polynomial_self", 2), ("polynomial_relative", 1)])
def test_only_the_slopes_of_the_highest_degree_are_searched(name: str, sides: int) -> None:
    for degree in DEGREES:
        assert len(of_degrees(name, degree).bounds) == 2 + sides * degree
    assert len(of_degrees(name, 1, 3).bounds) == 2 + sides * 3


def test_degrees_can_be_searched_too_and_the_default_comes_once() -> None:
    space = StudySpace({"polynomial_relative": of_degrees("polynomial_relative", *DEGREES)})
    assert space.is_conditional
    assert space.first_points() == [{"offset": 0.2, "degree": 1, "slope_0": 1.0}]
    point = {"offset": 0.1, "degree": 3, "slope_0": 0.0, "slope_1": 2.0, "slope_2": 1.0}
    found = space.suggest(FixedTrial(point)).loss_parameters["coefficients"]
    assert len(found) == 4 and found[0] == 0.1


COEFFICIENT_GRID = {"e0": {"values": [0.2]}, "e1": {"values": [0.5, 1.0, 1.5, 2.0]}, "e2": {"values": [-0.1, 0.0, 0.2]}}


def test_a_grid_of_relative_coefficients_as_they_are() -> None:
    space = {"polynomial_relative": COEFFICIENT_GRID}
    study = space_of(sampler="grid", trials=100, space=space)
    found = [study.suggest(FixedTrial(dict(point))).loss_parameters["coefficients"] for point in study.grid()]
    assert found == [(0.2, e1, e2) for e1 in (0.5, 1.0, 1.5, 2.0) for e2 in (-0.1, 0.0, 0.2)]
    assert not study.is_conditional
    assert study.first_points() == [{"e0": 0.2, "e1": 1.0, "e2": 0.0}]


def test_listed_coefficients_may_stand_still_beside_others() -> None:
    lists = {name: COEFFICIENT_GRID[name] for name in ("e1", "e2")}
    search = {"fixed": {"polynomial_relative": {"e0": 0.3}}, "space": {"polynomial_relative": lists}}
    found = space_of(**search).suggest(FixedTrial({"e0": 0.3, "e1": 0.5, "e2": 0.0}))
    assert found.loss_parameters == {"coefficients": (0.3, 0.5, 0.0)}


def test_a_gate_forgives_slopes_below_it() -> None:
    lists = {**COEFFICIENT_GRID, "e2": {"values": [1.0]}}
    with pytest.raises(ConfigError, match="must rise on"):
        experiment(space={"polynomial_relative": lists})
    gated = {"polynomial_relative": {"gate": 0.2}}
    study = space_of(space={"polynomial_relative": lists}, fixed=gated)
    for e1 in (0.5, 1.0, 1.5, 2.0):
        PolynomialRelative((0.2, e1, 1.0), gate=0.2)
    assert study.suggest(FixedTrial({"e0": 0.2, "e1": 0.5, "e2": 1.0})).loss_parameters["gate"] == 0.2


def test_the_published_code_runs_first_where_its_coefficients_are_listed() -> None:
    published = {"a0": 0.5, "a1": -0.7, "a2": 0.2, "b0": 0.03, "b1": -0.4, "b2": 0.9}
    search = {
        "space": {"polynomial_self": {name: {"values": [0.0, value]} for name, value in published.items()}},
        "fixed": {"polynomial_self": {"hinge": "separate", "gate": 0.2}},
    }
    space = space_of("polynomial_self", **search)
    (point,) = space.first_points()
    parameters = space.suggest(FixedTrial(dict(point))).loss_parameters
    assert parameters["positive_coefficients"] == (0.5, -0.7, 0.2)
    assert parameters["negative_coefficients"] == (0.03, -0.4, 0.9)
    PolynomialSelf(**parameters)


def test_infeasible_coefficients_are_allowed_in_words() -> None:
    fixed = {"polynomial_relative": {"coefficients": [0.2, -1.0], "allow_infeasible": True}}
    assert space_of(fixed=fixed).bounds() == {}


def test_checks_of_one_side_leave_the_other() -> None:
    check: Callable[..., None] = SPACES["polynomial_self"].check_parameters
    check({"positive_coefficients": (0.5, -1.0)})
    check({"negative_coefficients": (0.03, -0.4, 0.9), "hinge": "separate"})
    with pytest.raises(SpaceError, match="positive_coefficients"):
        check({"positive_coefficients": (0.5, 1.0), "negative_coefficients": (0.0, 1.0)})


def test_one_polynomial_of_two_may_be_listed_as_a_constant() -> None:
    search = {"space": {"polynomial_self": {"a0": {"values": [0.5]}, "b1": {"values": [0.5, 1.0]}}}}
    space = space_of("polynomial_self", **search)
    PolynomialSelf(**space.suggest(FixedTrial({"a0": 0.5, "b1": 1.0})).loss_parameters)
