"""Every search space: bounds that the loss accepts, published settings inside them, and no engine behind them."""

from dataclasses import fields
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from search_spaces import SPACES, LossSpace, Range, SpaceError, Values
from search_spaces.space import FixedPoint
from trainables.losses import LOSSES, build_loss

EACH = pytest.mark.parametrize("name", sorted(SPACES))


@EACH
@pytest.mark.parametrize("end", [0, -1], ids=["low", "high"])
def test_the_ends_of_the_default_bounds_make_a_loss(name: str, end: int) -> None:
    space = SPACES[name]
    point = FixedPoint({name: bound.ends()[end] for name, bound in space.bounds.items()})
    parameters = space.suggest(point, space.bounds)
    space.check_parameters(parameters)
    build_loss(name, **parameters)


@EACH
def test_the_published_settings_are_the_defaults_of_the_loss(name: str) -> None:
    space = SPACES[name]
    bounds = space.relevant(space.bounds, {})
    assert all(build_loss(name, **space.suggest(FixedPoint(one), bounds)) for one in space.first_points(bounds))
    point = space.published_points(bounds)[0]
    published, default = build_loss(name, **space.suggest(FixedTrial(dict(point)), bounds)), build_loss(name)
    similarity, positives = torch.linspace(-1, 1, 16).reshape(4, 4), torch.eye(4, dtype=torch.bool)
    torch.manual_seed(0)
    value = published(similarity, positives)
    torch.manual_seed(0)
    assert torch.equal(value, default(similarity, positives))


def refuses(call: Any) -> bool:
    try:
        call()
    except (ValueError, TypeError):
        return True
    return False


VALUES = [-1.0, 0.0, 1e-3, 0.5, 3, float("nan"), float("inf"), "joint", "i2t", "both ways", "learned", None]


@EACH
def test_what_a_space_refuses_the_loss_refuses_and_the_other_way_round(name: str) -> None:
    for parameter in SPACES[name].parameters:
        if parameter != "allow_infeasible" and not parameter.endswith("coefficients"):
            call, build = SPACES[name].check_parameters, partial(build_loss, name)
            refused = [value for value in VALUES if refuses(partial(call, {parameter: value}))]
            assert refused == [value for value in VALUES if refuses(partial(build, **{parameter: value}))], parameter


def test_every_loss_has_a_space_that_names_the_parameters_of_its_constructor() -> None:
    named = {name: set(space.parameters) for name, space in SPACES.items()}
    assert named == {name: {field.name for field in fields(loss)} for name, loss in LOSSES.items()}


@given(low=st.floats(), high=st.floats(), log=st.booleans())
def test_a_range_is_finite_ascending_and_above_zero_where_logarithmic(low: float, high: float, log: bool) -> None:
    allowed = -float("inf") < low < high < float("inf") and (not log or low > 0)
    assert refuses(lambda: Range(low, high, log)) is not allowed


@pytest.mark.parametrize("values", [(), (1, 1)])
def test_values_are_listed_once(values: tuple) -> None:
    with pytest.raises(SpaceError, match="each once"):
        Values(values)


def test_points_outside_narrower_bounds_are_left_out() -> None:
    space: LossSpace = SPACES["nt_xent"]
    assert space.first_points(space.narrowed({"temperature": Range(0.2, 0.3)})) == []
    assert space.first_points(space.narrowed({"temperature": Values((0.1, 0.3))})) == [{"temperature": 0.1}]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"temprature": Range(0.1, 0.2)}, "did you mean 'temperature'"),
        ({"temperature": Range(-0.1, 0.2)}, "temperature must be a number above 0, or 'learned', got -0.1"),
        ({"temperature": Values((0.1, "hot"))}, "temperature must be a number above 0, or 'learned', got 'hot'"),
    ],
)
def test_bounds_beyond_what_the_loss_accepts_are_refused(bounds: dict, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        SPACES["nt_xent"].narrowed(bounds)
