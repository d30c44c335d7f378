"""The polynomials as scale, margin and shape: what is inside, what is tried first, and what older names still mean."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from search_spaces import SPACES, Range, StudySpace, Values
from search_spaces.bernstein import DEGREES
from search_spaces.space import Asked
from tests.search_spaces.studies import space_of
from trainables.losses import build_loss
from trainables.parameter_values import is_feasible

NAMES = ["polynomial_relative", "polynomial_self"]
EACH = pytest.mark.parametrize("name", NAMES)
PUBLISHED_CODE = {"positive_coefficients": (0.5, -0.7, 0.2), "negative_coefficients": (0.03, -0.4, 0.9)}
SEPARATE = {"hinge": "separate", "gate": 0.2}


def first_parameters(space: StudySpace) -> list[Any]:
    return [dict(space.suggest(FixedTrial(dict(point))).loss_parameters) for point in space.first_points()]


@EACH
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("pairs", [16, 200])
def test_the_triplet_loss_and_its_mean_come_first_and_lie_inside(name: str, degree: int, pairs: int) -> None:
    space = space_of(name, {"batch_size": pairs}, space={name: {"degree": {"values": [degree]}}})
    torch.manual_seed(pairs)
    similarity = torch.nn.functional.normalize(torch.randn(2, pairs, 8, dtype=torch.float64), dim=-1)
    similarity = (similarity[0] @ similarity[1].T).requires_grad_()
    positives = torch.eye(pairs, dtype=torch.bool)
    triplet = build_loss("triplet_sh", margin=0.2)(similarity, positives)
    values = [build_loss(name, **one)(similarity, positives) for one in first_parameters(space)]
    torch.testing.assert_close(torch.stack(values), torch.stack([triplet, triplet / pairs]), rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(value, similarity, retain_graph=True)[0] for value in (triplet, values[0])]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=0)
    bounds = space.bounds()
    assert all(bounds[key].contains(value) for point in space.first_points() for key, value in point.items())


def test_batches_of_images_count_their_captions() -> None:
    training = {"batches": "images", "batch_size": 26, "captions_per_image": 5}
    assert space_of("polynomial_relative", training).first_points()[0]["scale"] == 130.0


@pytest.mark.parametrize(
    ("pairs", "bounds"), [(128, Range(1, 512, log=True)), (32, Range(0.25, 128, log=True)), (512, Range(1, 2048, True))]
)
def test_the_scale_goes_from_the_mean_to_four_times_the_sum(pairs: int, bounds: Range) -> None:
    assert space_of("polynomial_relative", {"batch_size": pairs}).bounds()["scale"] == bounds


def test_the_published_code_is_a_point_where_its_hinges_and_its_gate_stand_still() -> None:
    space = space_of("polynomial_self", fixed={"polynomial_self": SEPARATE})
    summed, published = first_parameters(space)
    assert published == {**PUBLISHED_CODE, **SEPARATE}
    assert summed["positive_coefficients"] == pytest.approx([128 * one for one in (0.5, -0.7, 0.2)])
    assert [point["scale"] for point in space.published_points()] == [0.7]
    assert space_of("polynomial_self", fixed={"polynomial_self": {"hinge": "separate"}}).published_points() == []


def test_two_hinges_have_two_constants_and_a_joint_hinge_has_one() -> None:
    space = space_of("polynomial_self", fixed={"polynomial_self": SEPARATE})
    point = {**space.first_points()[0], "margin": 0.9, "negative_margin": -0.5, "scale": 2.0}
    found = space.suggest(FixedTrial(dict(point))).loss_parameters
    assert (found["positive_coefficients"][0], found["negative_coefficients"][0]) == (1.8, -1.0)
    assert "negative_margin" not in space_of("polynomial_self").bounds()


@pytest.mark.parametrize(("gate", "low"), [(0, 0), (0.2, -0.2), (1, -1), (1.5, -1.5), (3, -2), (None, -1)])
def test_the_slope_is_asked_for_from_the_gate_on(gate: float | None, low: float) -> None:
    fixed = {} if gate is None else {"polynomial_relative": {"gate": gate}}
    space = space_of("polynomial_relative", fixed=fixed)
    point = {"scale": 1.0, "margin": 0.2, "degree": 2, "shape2": 1.0}
    found = space.suggest(FixedTrial(dict(point))).loss_parameters
    _, first, second = found["coefficients"]
    assert first + 2 * second * low == pytest.approx(0, abs=1e-11)
    assert is_feasible(found["coefficients"], "relative", (low, 2.0))
    build_loss("polynomial_relative", **found)


BOXES = st.sampled_from(NAMES).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.sampled_from(DEGREES),
        st.sampled_from([{}, {"gate": 0.2}, *([SEPARATE] if name == "polynomial_self" else [])]),
        st.integers(2, 600),
        st.data(),
    )
)


@given(BOXES)
def test_the_loss_takes_every_suggestion(box: Any) -> None:
    name, degree, fixed, pairs, data = box
    space = SPACES[name].adapted(Asked(fixed=fixed, pairs=pairs))
    space = space.narrowed({"degree": Values((degree,))}, fixed)
    point = {
        key: data.draw(st.sampled_from(bound.values) if isinstance(bound, Values) else st.floats(bound.low, bound.high))
        for key, bound in space.bounds.items()
    }
    build_loss(name, **space.parameters_at(point))


@EACH
def test_only_the_shapes_of_the_searched_degrees_are_searched(name: str) -> None:
    for degrees in ((1,), (2,), (3,), (4,), (1, 3)):
        bounds = space_of(name, space={name: {"degree": {"values": list(degrees)}}}).bounds()
        shapes = [key for key in bounds if "shape" in key]
        sides = 2 if name == "polynomial_self" else 1
        assert len(shapes) == sides * sum({1: 0, 2: 1, 3: 2, 4: 3}[degree] for degree in degrees)


def test_fixed_coefficients_are_not_searched_beside() -> None:
    space = space_of("polynomial_relative", fixed={"polynomial_relative": {"coefficients": [25.6, 128.0, 64.0]}})
    assert space.bounds() == {}
    assert first_parameters(space) == [{"coefficients": (25.6, 128.0, 64.0)}]


@pytest.mark.parametrize("older", [{"offset": [0.1, 0.4]}, {"slope_0": [0, 1]}], ids=str)
def test_older_names_bring_the_older_parametrisation(older: Any) -> None:
    bounds = space_of("polynomial_relative", space={"polynomial_relative": older}).bounds()
    assert list(bounds) == ["offset", "degree", "slope_0", "slope_1"]
    assert {str(bound) for name, bound in bounds.items() if name not in older} <= {"[0, 0.5]", "[0, 2]", "{2}"}
