"""The e-value of a stream of proposals: its closed form, its martingale, and how often streams err."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.results.sequential import (
    SCALE,
    Decision,
    discard_bound,
    findable_effect,
    interval,
    keep_bound,
    level_of,
    log_e_value,
    log_ratio,
    weigh,
)
from tests.support.gate_rates import NULLS, VIOLATIONS, power, stream_rates

VALUES = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=1, max_size=12)


def e_of(values: np.ndarray) -> float:
    pairs, norm = len(values), float(np.sqrt(np.sum(values**2)))
    return log_e_value(pairs, float(np.clip(values.sum() / norm, -math.sqrt(pairs), math.sqrt(pairs))))


@pytest.mark.parametrize(("pairs", "cosine"), [(1, 1.0), (2, -0.7), (3, 1.2), (7, 2.5), (12, -3.0), (20, 4.3)])
def test_the_closed_form_is_the_mixture_of_ratios_over_positive_effects(pairs: int, cosine: float) -> None:
    """The integral over effects and over the chi-distributed length, on a grid."""
    effects = (np.arange(4000) + 0.5) * 8 * SCALE / 4000
    width = (np.arange(3000) + 0.5) * (math.sqrt(pairs) + 8 * SCALE * 4) / 3000
    density = (pairs - 1) * np.log(width) - width**2 / 2
    density -= np.logaddexp.reduce(density)
    prior = -((effects / SCALE) ** 2) / 2
    prior -= np.logaddexp.reduce(prior)
    by_effect = [np.logaddexp.reduce(density + width * h * cosine) - pairs * h**2 / 2 for h in effects]
    assert log_e_value(pairs, cosine) == pytest.approx(float(np.logaddexp.reduce(prior + by_effect)), abs=2e-3)


def test_the_ratio_of_one_pair_is_twice_the_chance_of_its_sign() -> None:
    normal = 0.5 * (1 + math.erf(1.3 / math.sqrt(2)))
    assert log_ratio(1, 1.0, 1.3) == pytest.approx(math.log(2 * normal), abs=1e-4)


def test_the_e_value_is_a_martingale_without_a_difference() -> None:
    """Given the pairs so far, the mean of the next e-value over the next pair, whose scale given them is Student's."""
    past = np.array([0.4, -1.1, 0.9])
    size = math.sqrt(float(np.mean(past**2)))
    uniform = (np.arange(20_000) + 0.5) / 20_000
    from scipy.special import stdtrit

    # With the right Haar prior and mean 0, the next value over the root mean square is Student's with n degrees.
    following = size * stdtrit(3, uniform)
    mean = np.mean([math.exp(e_of(np.append(past, value))) for value in following])
    assert mean == pytest.approx(math.exp(e_of(past)), rel=1e-3)


@given(VALUES, st.floats(0, 5))
@settings(max_examples=300, deadline=None)
def test_a_worse_proposal_never_has_more_evidence_than_an_equal_one(differences: list[float], worse: float) -> None:
    """The step of the proof: E(D) <= E(D - d) for every d <= 0."""
    values = np.array(differences)
    if np.abs(values).max() > 1e-6 and np.abs(values + worse).max() > 1e-6:
        assert e_of(values) <= e_of(values + worse) + 1e-9


def test_the_levels_of_all_proposals_are_the_level_of_the_stream() -> None:
    assert sum(level_of(place) for place in range(1, 10_001)) == pytest.approx(0.05 * (1 - 10_001**-0.5))


def test_bounds_are_where_the_decision_changes() -> None:
    level, effect = level_of(3), findable_effect(20, level_of(3))
    for pairs in (5, 9, 20):
        bound = keep_bound(pairs, level)
        assert log_e_value(pairs, bound + 1e-9) >= -math.log(level) > log_e_value(pairs, bound - 1e-9)
        lower = discard_bound(pairs, effect)
        assert log_ratio(pairs, lower - 1e-9, effect) <= math.log(0.05) < log_ratio(pairs, lower + 1e-6, effect)
    assert keep_bound(2, level) == math.inf and discard_bound(2, 0.1) == -math.inf


def test_what_few_pairs_cannot_decide_is_undecided() -> None:
    assert weigh([], 0.01, 20).decision is Decision.UNDECIDED
    assert weigh([5.0, 5.1], 0.01, 20).decision is Decision.UNDECIDED
    assert weigh([0.0, 0.0], 0.01, 20).e_value == 1.0


def test_the_interval_holds_the_mean_at_all_times_together() -> None:
    generator = np.random.default_rng(7)
    missed = 0
    for _ in range(400):
        values = generator.normal(1.5, 2.0, 30)
        ends = [interval(values[:pairs]) for pairs in range(3, 31)]
        missed += any(not low <= 1.5 <= high for low, high in ends)
    assert missed / 400 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("case", NULLS)
def test_few_streams_of_proposals_that_are_no_better_keep_one(case: str) -> None:
    rates = stream_rates(NULLS[case], streams=300, proposals=12)
    assert rates.gate <= 0.05 < rates.single


@pytest.mark.proof
@pytest.mark.parametrize("case", NULLS)
def test_at_most_one_in_twenty_of_2000_streams_of_100_proposals_errs(case: str) -> None:
    rates = stream_rates(NULLS[case], streams=2000, proposals=100)
    assert rates.gate <= 0.05 and rates.single > 0.99


def test_the_violations_that_the_page_names_are_as_it_says() -> None:
    rates = {case: stream_rates(draw, streams=200, proposals=12) for case, draw in VIOLATIONS.items()}
    assert rates["tails of t(3)"].gate <= 0.05 and rates["accuracy of ten questions"].gate <= 0.05
    # A run that collapses once in ten is not in the first pairs: no test of few runs sees it.
    assert rates["rare collapses"].gate > 0.5 and rates["opposite skewness"].gate > 0.05


def test_large_effects_are_kept_at_any_place_of_the_stream() -> None:
    assert power(5.0, place=99, studies=300).gate > 0.99
    assert power(2.0, place=0, studies=300).gate > 0.95
