"""Points near others: inside the space whatever the draws, and near where nothing is drawn anew."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import SPACES, LossPart, Range, StudySpace, Values, perturb
from search_spaces.study import RESAMPLED, STEP

SEEDS = st.integers(0, 2**32)


def space_of(name: str) -> StudySpace:
    space = SPACES[name]
    bounds = {"degree": Values((1, 2, 3, 4))} if name.startswith("polynomial") else {}
    part = LossPart(space, space.relevant(space.narrowed(bounds), {}), {})
    training = {"batch_size": Values((32, 64, 128)), "learning_rate_drop_epochs": Range(3, 30, whole=True)}
    return StudySpace({name: part}, training, {"radius": Range(0.3, 10.0, log=True)})


@pytest.mark.parametrize("name", sorted(SPACES))
@given(seed=SEEDS)
def test_a_walk_through_a_space_never_leaves_it(name: str, seed: int) -> None:
    space, draw = space_of(name), random.Random(seed)
    point: dict[str, Any] = {}
    for _ in range(8):
        kept = [] if not point else ["model.radius"]
        radius = point.get("model.radius")
        point, suggestion = perturb(space, point, kept, draw)
        SPACES[name].check_parameters(suggestion.loss_parameters)
        assert all(space.bounds()[key].contains(value) for key, value in point.items())
        assert radius in (None, point["model.radius"])
        assert isinstance(suggestion.training["learning_rate_drop_epochs"], int)


@given(seed=SEEDS)
def test_a_number_goes_a_step_or_is_drawn_anew(seed: int) -> None:
    space = space_of("nt_xent")
    point = {"temperature": 0.1, "training.batch_size": 64, "training.learning_rate_drop_epochs": 3, "model.radius": 1}
    found, _ = perturb(space, point, (), random.Random(seed))
    assert found.keys() == point.keys()
    again, _ = perturb(space, point, (), random.Random(seed))
    assert again == found


def test_a_quarter_is_drawn_anew_and_the_rest_is_near_on_both_sides() -> None:
    space, draw = space_of("nt_xent"), random.Random(0)
    ratios = [perturb(space, {"temperature": 0.1}, (), draw)[0]["temperature"] / 0.1 for _ in range(2000)]
    steps = [ratio for ratio in ratios if STEP**-1.5 <= ratio <= STEP**1.5]
    far = 1 - len(steps) / len(ratios)
    # A drawn one is as near by chance in 15 of 100 cases.
    assert far == pytest.approx(RESAMPLED * 0.85, abs=0.04)
    assert sum(ratio > 1 for ratio in steps) == pytest.approx(len(steps) / 2, rel=0.1)
    assert len(set(ratios)) == len(ratios)
