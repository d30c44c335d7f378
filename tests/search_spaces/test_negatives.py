"""The number of hardest negatives as a searched parameter."""

from typing import Any

import pytest

from orchestrator.experiment.sections import Search
from orchestrator.experiment.spaces import make_space
from search_spaces import LossPart, Range, Values
from search_spaces.space import FixedPoint
from trainables.config import TrainingConfig
from trainables.losses import build_loss

LOSSES = ("triplet", "polynomial_self", "polynomial_relative", "gradient_weights")


def part(loss: str, batch_size: int = 128, **search: Any) -> LossPart:
    training = TrainingConfig(batch_size=batch_size)
    return make_space(Search(**search), "vsepp", [loss], training, {}).losses[loss]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_range_is_of_whole_numbers_on_a_logarithmic_scale(loss: str) -> None:
    assert part(loss, space={loss: {"negatives": [1, 64]}}).bounds["negatives"] == Range(1, 64, log=True, whole=True)


@pytest.mark.parametrize("loss", LOSSES[:3])
def test_the_default_range_is_bounded_by_the_batch_and_searched_only_where_asked(loss: str) -> None:
    asked = {loss: {"negatives": "default"}}
    assert part(loss, 32, space=asked).bounds["negatives"] == Range(1, 31, log=True, whole=True)
    assert "negatives" not in part(loss).bounds


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("version", [1, 3])
def test_every_first_point_is_a_loss_and_one_of_them_is_the_hardest_triplet_loss(loss: str, version: int) -> None:
    import torch

    found = part(loss, 4, space={loss: {"negatives": [1, 3]}}, space_version=version)
    points = found.first_points()
    assert points
    assert all("negatives" in point for point in points)
    similarity, positives = torch.linspace(-1, 1, 16).reshape(4, 4).sin().requires_grad_(), torch.eye(4) > 0
    hardest = torch.autograd.grad(build_loss("triplet_sh")(similarity, positives), similarity)[0]
    gradients = [
        torch.autograd.grad(build_loss(loss, **found.suggest(FixedPoint(point)))(similarity, positives), similarity)[0]
        for point in points
    ]
    scales = (4.0, 1.0) if version == 1 and loss.startswith("polynomial") else (1.0,)
    assert any(torch.allclose(scale * gradient, hardest) for gradient in gradients for scale in scales)


def test_listed_counts_and_all() -> None:
    found = part("triplet", space={"triplet": {"negatives": {"values": [1, 4, "all"]}}})
    assert found.bounds["negatives"] == Values((1, 4, "all"))
    assert [point["negatives"] for point in found.first_points()] == [1, "all"]
    assert build_loss("triplet", **found.suggest(FixedPoint(found.first_points()[1]))) == build_loss("triplet")


def test_fixed_coefficients_leave_the_count_to_search() -> None:
    search = {"fixed": {"polynomial_relative": {"coefficients": (0.2, 1.0)}}}
    found = part("polynomial_relative", space={"polynomial_relative": {"negatives": [1, 16]}}, **search)
    assert list(found.bounds) == ["negatives"]
    assert found.suggest(FixedPoint({"negatives": 5})) == {"negatives": 5, "coefficients": (0.2, 1.0)}


def test_a_fixed_count() -> None:
    found = part("triplet", fixed={"triplet": {"negatives": 4}})
    assert list(found.bounds) == ["margin"]
    assert found.suggest(FixedPoint({"margin": 0.3})) == {"margin": 0.3, "negatives": 4}


def test_polynomials_of_several_negatives_are_no_triplet_sh() -> None:
    found = part("polynomial_relative", fixed={"polynomial_relative": {"negatives": 4}})
    assert found.space.twins("triplet_sh", {"margin": 0.2}) == ()
