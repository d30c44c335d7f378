"""The expected best of a number of trials: against all subsets counted one by one, and against many searches."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.results.equal_budget import (
    Curve,
    best_quantiles,
    chance_to_improve,
    crossings,
    expected_best,
    lead_probability,
)

LISTS = st.lists(st.integers(-50, 50), min_size=1, max_size=7).map(lambda values: np.array(values, dtype=float))


@given(LISTS)
def test_it_is_the_mean_over_all_subsets(values: np.ndarray) -> None:
    for drawn in range(1, len(values) + 1):
        bests = [max(subset) for subset in combinations(values, drawn)]
        assert expected_best(values, [drawn])[0] == pytest.approx(np.mean(bests), abs=1e-9)
        low, high = best_quantiles(values, [drawn])[:, 0]
        assert np.mean(np.array(bests) <= low) >= 0.1 - 1e-9
        assert np.mean(np.array(bests) < low) < 0.1
        assert np.mean(np.array(bests) <= high) >= 0.9 - 1e-9


@given(LISTS)
def test_more_trials_are_never_worse_and_all_of_them_have_the_best(values: np.ndarray) -> None:
    curve = expected_best(values, range(1, len(values) + 1))
    assert np.all(np.diff(curve) >= -1e-9)
    assert curve[0] == pytest.approx(values.mean())
    assert curve[-1] == pytest.approx(values.max())
    assert expected_best(values[::-1], [1])[0] == pytest.approx(curve[0])


def test_it_is_unbiased_where_drawing_with_replacement_is_too_low() -> None:
    """Many searches of 8 trials: the mean of the estimates is the expected best of 6 independent trials."""
    values = np.random.default_rng(0).standard_normal((40_000, 8))
    truth = np.random.default_rng(1).standard_normal((400_000, 6)).max(1).mean()
    assert expected_best(values, [6]).mean() == pytest.approx(truth, abs=0.012)
    below = np.arange(9) / 8
    replaced = np.sort(values, axis=1) @ np.diff(below**6)
    assert replaced.mean() < truth - 0.1


def test_between_whole_numbers_of_trials_a_budget_is_on_a_straight_line() -> None:
    values = np.array([1.0, 2.0, 4.0])
    found = Curve(values).at_budgets(10.0, np.array([10.0, 15.0, 20.0, 30.0]))
    assert found == pytest.approx([7 / 3, (7 / 3 + 10 / 3) / 2, 10 / 3, 4.0])


def test_a_loss_that_is_good_on_average_is_overtaken_by_one_with_the_best_trial() -> None:
    steady, lucky = Curve(np.array([5.0, 5.1, 5.2, 5.3])), Curve(np.array([1.0, 2.0, 3.0, 9.0]))
    (crossing,) = crossings(steady, lucky, (1.0, 1.0))
    assert crossing[1] is False
    at = crossing[0]
    assert steady.at_budgets(1.0, np.array([at - 0.1]))[0] > lucky.at_budgets(1.0, np.array([at - 0.1]))[0]
    assert steady.at_budgets(1.0, np.array([at + 0.1]))[0] < lucky.at_budgets(1.0, np.array([at + 0.1]))[0]
    assert crossings(steady, Curve(np.array([4.0, 4.1, 4.2, 4.3])), (1.0, 1.0)) == []
    assert crossings(steady, lucky, (1.0, 100.0)) == [], "no budget pays for a trial of both"


def test_a_lead_is_as_likely_as_the_resampled_trials_say() -> None:
    values = np.arange(8.0)
    assert lead_probability(values, values, 4) == pytest.approx(0.5, abs=0.06)
    assert lead_probability(values + 20, values, 4) == 1.0
    assert lead_probability(values, values + 20, 4) == 0.0


def test_the_best_of_all_is_any_of_them() -> None:
    """Of 3 trials and 2 further ones, all orders counted."""
    improved = [max(order[3:]) > max(order[:3]) for order in product(range(5), repeat=5) if len(set(order)) == 5]
    assert chance_to_improve(3, 2) == pytest.approx(np.mean(improved))


def test_equal_searches_are_ahead_in_half_of_the_resamples() -> None:
    same = np.full(5, 3.0)
    assert lead_probability(same, same, 3) == 0.5
    assert lead_probability(same + 1, same, 3) == 1.0


def test_curves_cross_only_at_budgets_that_both_searches_had() -> None:
    """The first has 1 to 2 epochs and rises from 5 to 10, the second 4 to 8 and stays at 8: no budget is of both."""
    rising, level = Curve(np.array([0.0, 10.0])), Curve(np.array([8.0, 8.0]))
    assert crossings(rising, level, (1.0, 4.0)) == []
    assert len(crossings(rising, level, (1.0, 1.0))) == 1
