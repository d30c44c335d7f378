"""The leads of designs, beside studies that are simulated trial by trial, and which design is recommended."""

import numpy as np
import pytest

from orchestrator.results.search_designs import (
    ERROR_OF_IMAGES,
    NEARLY,
    NOISE,
    OF_TRIALS,
    SHOWN,
    USUAL,
    Luck,
    search_designs,
)
from orchestrator.results.statistics import POWER
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES
from tests.support.repeat_rates import p_values


def best_of_trials(shape: tuple[int, ...], trials: int, parameters: int, generator: np.random.Generator) -> np.ndarray:
    """Return minus the squared distance from the peak of the best of random trials."""
    return -(generator.uniform(-1, 1, (*shape, trials, parameters)) ** 2).sum(-1).min(-1)


@pytest.mark.parametrize(("budget", "parameters", "luck"), [(65, 2, 5.0), (65, 4, 2.0), (160, 3, 5.0)])
def test_the_stated_lead_is_found_in_four_of_five_simulated_studies(budget: int, parameters: int, luck: float) -> None:
    generator, studies = np.random.default_rng([budget, parameters]), 3000
    scale = luck / best_of_trials((20_000,), OF_TRIALS, parameters, generator).std()
    designs = search_designs(budget, 1, parameters, Luck((luck,)))
    for design in designs:
        shape = (studies, 2, design.searches)
        values = scale * best_of_trials(shape, design.trials, parameters, generator)
        values[:, 0] += design.leads[0]
        values += NOISE * generator.standard_normal(shape) + ERROR_OF_IMAGES * generator.standard_normal(
            (studies, 2, 1)
        )
        means, variances = values.mean(2), values.var(2, ddof=1) / design.searches
        difference = means[:, 0] - means[:, 1]
        p = p_values(difference, variances[:, 0], variances[:, 1], design.searches, 2 * ERROR_OF_IMAGES**2)
        level = LEVELS_OF_SEARCHES.get(design.searches, LEVEL)
        assert abs(((difference > 0) & (p <= level)).mean() - POWER) < 0.05, design


def test_designs_cost_alike_and_fewer_trials_find_worse_settings() -> None:
    designs = search_designs(65, 1, 2, USUAL, (5, 12))
    assert all(48 <= design.searches * (design.trials + 1) <= 65 for design in designs)
    by_trials = sorted(designs, key=lambda design: design.trials)
    assert [design.below for design in by_trials] == sorted((design.below for design in designs), reverse=True)
    assert sum(design.is_own for design in designs) == 1 and len(designs) <= SHOWN


def test_the_first_design_has_the_fewest_searches_of_those_that_find_nearly_as_much() -> None:
    for parameters in (1, 2, 4, 6):
        first, *others = search_designs(125, 1, parameters, USUAL)
        smallest = min(sum(design.leads) for design in (first, *others))
        assert sum(first.leads) <= NEARLY * smallest
        assert not any(one.searches < first.searches and sum(one.leads) <= NEARLY * smallest for one in others)
    # Where many parameters are searched, more trials make a search hardly less lucky: more searches find more.
    few, many = (search_designs(125, 1, parameters, USUAL)[0] for parameters in (1, 6))
    assert few.searches <= many.searches


def test_a_budget_too_small_for_two_searches_has_no_design() -> None:
    assert search_designs(6, 1, 2, USUAL) == []
