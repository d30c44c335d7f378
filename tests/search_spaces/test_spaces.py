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
from tests.search_spaces.studies import space_of
from trainables.losses import LOSSES, build_loss

EACH = pytest.mark.parametrize("name", sorted(SPACES))


@EACH
@pytest.mark.parametrize("end", [0, -1], ids=["low", "high"])
def test_the_ends_of_the_default_bounds_make_a_loss(name: str, end: int) -> None:
    space = SPACES[name]
    parameters = space.parameters_at({name: bound.ends()[end] for name, bound in space.bounds.items()})
    space.check_parameters(parameters)
    build_loss(name, **parameters)


@EACH
def test_the_published_settings_are_the_defaults_of_the_loss(name: str) -> None:
    space = SPACES[name].narrowed({}, {})
    assert all(build_loss(name, **space.parameters_at(point)) for point in space.first_points())
    point = space.published_points()[0]
    published, default = build_loss(name, **space.suggest(FixedTrial(dict(point)))), build_loss(name)
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


def test_values_are_listed_once() -> None:
    for values in ((), (1, 1)):
        with pytest.raises(SpaceError, match="each once"):
            Values(values)


def test_points_outside_narrower_bounds_are_left_out() -> None:
    space: LossSpace = SPACES["nt_xent"]
    assert space.narrowed({"temperature": Range(0.2, 0.3)}, {}).first_points() == []
    assert space.narrowed({"temperature": Values((0.1, 0.3))}, {}).first_points() == [{"temperature": 0.1}]


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
        SPACES["nt_xent"].narrowed(bounds, {})


WITH_NEGATIVES = ("triplet", "polynomial_self", "polynomial_relative", "gradient_weights")


def part(loss: str, batch_size: int = 128, **search: Any) -> LossSpace:
    return space_of(loss, {"batch_size": batch_size}, **search).losses[loss]


@pytest.mark.parametrize("loss", WITH_NEGATIVES)
def test_a_range_is_of_whole_numbers_on_a_logarithmic_scale(loss: str) -> None:
    assert part(loss, space={loss: {"negatives": [1, 64]}}).bounds["negatives"] == Range(1, 64, log=True, whole=True)


@pytest.mark.parametrize("loss", WITH_NEGATIVES[:3])
def test_the_default_range_is_bounded_by_the_batch_and_searched_only_where_asked(loss: str) -> None:
    asked = {loss: {"negatives": "default"}}
    assert part(loss, 32, space=asked).bounds["negatives"] == Range(1, 31, log=True, whole=True)
    assert "negatives" not in part(loss).bounds


SLOPES = {"polynomial_relative": {"slope_0": [0, 2]}, "polynomial_self": {"positive_0": [0, 2]}}


@pytest.mark.parametrize("loss", WITH_NEGATIVES)
@pytest.mark.parametrize("by_slopes", [True, False])
def test_every_first_point_is_a_loss_and_one_of_them_is_the_hardest_triplet_loss(loss: str, by_slopes: bool) -> None:
    searched = {"negatives": [1, 3], **(SLOPES.get(loss, {}) if by_slopes else {})}
    found = part(loss, 4, space={loss: searched})
    points = found.first_points()
    assert points
    assert all("negatives" in point for point in points)
    similarity, positives = torch.linspace(-1, 1, 16).reshape(4, 4).sin().requires_grad_(), torch.eye(4) > 0
    hardest = torch.autograd.grad(build_loss("triplet_sh")(similarity, positives), similarity)[0]
    gradients = [
        torch.autograd.grad(build_loss(loss, **found.parameters_at(point))(similarity, positives), similarity)[0]
        for point in points
    ]
    scales = (4.0, 1.0) if by_slopes and loss.startswith("polynomial") else (1.0,)
    assert any(torch.allclose(scale * gradient, hardest) for gradient in gradients for scale in scales)


def test_listed_counts_and_all() -> None:
    found = part("triplet", space={"triplet": {"negatives": {"values": [1, 4, "all"]}}})
    assert found.bounds["negatives"] == Values((1, 4, "all"))
    assert [point["negatives"] for point in found.first_points()] == [1, "all"]
    assert build_loss("triplet", **found.parameters_at(found.first_points()[1])) == build_loss("triplet")


@pytest.mark.parametrize(
    ("loss", "fixed", "space", "point"),
    [
        ("polynomial_relative", {"coefficients": (0.2, 1.0)}, {"negatives": [1, 16]}, {"negatives": 5}),
        ("triplet", {"negatives": 4}, {}, {"margin": 0.3}),
    ],
)
def test_what_is_fixed_is_not_searched(loss: str, fixed: Any, space: Any, point: dict[str, Any]) -> None:
    found = part(loss, fixed={loss: fixed}, space={loss: space})
    assert list(found.bounds) == list(point)
    assert found.parameters_at(point) == {**point, **fixed}


def test_polynomials_of_several_negatives_are_no_triplet_sh() -> None:
    found = part("polynomial_relative", fixed={"polynomial_relative": {"negatives": 4}})
    assert found.twins("triplet_sh", {"margin": 0.2}) == ()
