"""Seeds that collapse: how often they are found, where there are any and where there are none."""

import numpy as np
import pytest

from orchestrator.results.collapse import find_collapse

STUDIES = 1500


def found(settings: int, seeds: int, rate: float) -> float:
    """Return the percentage of losses in which a collapse of 8 standard deviations is found."""
    generator = np.random.default_rng([settings, seeds])
    values = generator.standard_normal((STUDIES, settings, seeds))
    values -= 8 * (generator.random(values.shape) < rate)
    return 100 * float(np.mean([find_collapse(list(of)) is not None for of in values]))


@pytest.mark.parametrize("settings", [1, 2, 3])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_normal_seeds_collapse_in_hardly_any_loss(settings: int, seeds: int) -> None:
    assert found(settings, seeds, 0.0) <= 1.4 + 3 * np.sqrt(1.4 * 98.6 / STUDIES)


def test_several_settings_show_a_collapse_that_one_may_not() -> None:
    assert found(3, 5, 0.1) > 45 > 20 > found(1, 5, 0.1)
    assert found(3, 10, 0.1) > 80


def test_equal_values_and_two_seeds_say_nothing() -> None:
    assert find_collapse([np.array([1.0, 1.0, 1.0]), np.array([5.0, -5.0])]) is None
    assert find_collapse([]) is None
