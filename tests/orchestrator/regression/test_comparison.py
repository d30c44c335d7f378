"""The statistics of a rerun, checked against scipy and on simulated suites."""

import numpy as np
import pytest
from scipy import stats

from orchestrator.regression.comparison import (
    Finding,
    Level,
    compare_gradient,
    compare_score,
    measure_over_seeds,
    overall,
    pooled_spread,
    power_of,
    seeds_needed,
)
from orchestrator.significance import Measure, measure

ACCEPTED = np.array([410.0, 414.0, 406.0, 411.0, 409.0, 413.0])


def test_the_pool_is_the_residual_spread_of_an_analysis_of_variance() -> None:
    samples = [np.array([1.0, 2.0, 6.0]), np.array([10.0, 14.0]), np.array([5.0])]
    residuals = np.concatenate([values - values.mean() for values in samples])
    spread, freedom = pooled_spread([measure(values) for values in samples])
    assert freedom == 3
    assert spread == pytest.approx(np.sqrt((residuals**2).sum() / 3))


def test_one_cell_alone_is_students_test() -> None:
    new = np.array([401.0, 399.0, 405.0])
    pool = pooled_spread([measure(ACCEPTED), measure(new)])
    change = compare_score("rsum", measure(ACCEPTED), measure(new), pool, matters=5, level=Level(0.05, 1))
    assert change.p == pytest.approx(stats.ttest_ind(ACCEPTED, new, alternative="greater").pvalue)
    assert (change.finding, change.difference) == (Finding.REGRESSION, pytest.approx(new.mean() - ACCEPTED.mean()))


@pytest.mark.parametrize(
    ("shift", "matters", "finding"),
    [
        pytest.param(0, 8, Finding.OK, id="no drop, and one that matters is excluded"),
        pytest.param(-20, 8, Finding.REGRESSION, id="a drop that matters"),
        pytest.param(20, 8, Finding.IMPROVEMENT, id="a rise that matters"),
        pytest.param(-20, 40, Finding.OK, id="a drop that does not matter"),
        pytest.param(-4, 6, Finding.INCONCLUSIVE, id="neither shown nor excluded"),
    ],
)
def test_findings(shift: float, matters: float, finding: Finding) -> None:
    new = ACCEPTED[:3] + shift
    pool = pooled_spread([measure(ACCEPTED), measure(new)])
    change = compare_score("rsum", measure(ACCEPTED), measure(new), pool, matters=matters, level=Level(0.05, 7))
    assert change.finding is finding
    assert (change.needed is None) == (finding is not Finding.INCONCLUSIVE)


def test_a_published_row_serves_as_a_reference() -> None:
    new = np.array([350.0, 352.0, 349.0])
    pool = pooled_spread([measure(new)])
    change = compare_score("test/rsum", Measure(353.8, 1.6, 5), measure(new), pool, matters=10, level=Level(0.05, 1))
    assert (change.finding, change.seeds) == (Finding.OK, (5, 3))


@pytest.mark.parametrize("difference", [0.0, 2.0, 6.0])
def test_power_is_the_share_of_simulated_findings(difference: float) -> None:
    rng = np.random.default_rng(0)
    old, new = rng.normal(0, 2, (20_000, 6)), rng.normal(-difference, 2, (20_000, 4))
    found = stats.ttest_ind(old, new, axis=1, alternative="greater").pvalue <= 0.01
    assert power_of(2.0, 8, (6, 4), difference, 0.01) == pytest.approx(found.mean(), abs=0.015)


def test_the_seeds_asked_for_settle_it_nine_times_in_ten() -> None:
    count = seeds_needed(2.0, 40, 20, 2.5, more_than=2)
    assert count is not None
    rng = np.random.default_rng(0)
    reach = stats.t.ppf(0.95, 40) * 2.0 * np.sqrt(1 / 20 + 1 / count)
    drops = rng.normal(0, 2.0 * np.sqrt(1 / 20 + 1 / count), 20_000)
    assert (drops + reach < 2.5).mean() == pytest.approx(0.9, abs=0.03)


def test_no_number_of_seeds_makes_up_for_too_few_accepted_ones() -> None:
    assert seeds_needed(10.0, 3, 2, 5.0, more_than=3) is None


def suite_alarms(spreads: list[float], *, drop: float, matters: float) -> float:
    """Return the share of simulated suites in which a regression is found; the first cell drops."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(1000):
        cells = [
            (measure(rng.normal(0, spread, 6)), measure(rng.normal(-drop * spread if not index else 0, spread, 3)))
            for index, spread in enumerate(spreads)
        ]
        pool = pooled_spread([one for pair in cells for one in pair])
        level = Level(0.025, len(cells))
        found = [compare_score("rsum", *pair, pool, matters=matters, level=level).finding for pair in cells]
        alarms += Finding.REGRESSION in found
    return alarms / 1000


@pytest.mark.parametrize("spreads", [[1.0] * 7, [3.0] + [1.0] * 6], ids=["equal", "one is wider"])
def test_unchanged_suites_raise_no_more_alarms_than_stated(spreads: list[float]) -> None:
    # Every drop matters here, so that only the noise is tested; 0.035 is two standard errors above 0.025.
    assert suite_alarms(spreads, drop=0, matters=1e-9) <= 0.035


def test_a_large_drop_in_one_cell_of_seven_is_found() -> None:
    assert suite_alarms([1.0] * 7, drop=5, matters=2) >= 0.95


@pytest.mark.parametrize(
    ("new", "finding"),
    [
        pytest.param([20.0, 20.4, 19.7], Finding.OK, id="the same"),
        pytest.param([21.0, 21.3, 20.8], Finding.OK, id="moved by less than matters"),
        pytest.param([31.0, 30.4, 29.9], Finding.REGRESSION, id="more"),
        pytest.param([9.0, 10.4, 10.1], Finding.REGRESSION, id="less"),
        pytest.param([-20.0, -20.4, -19.7], Finding.REGRESSION, id="sign flipped"),
    ],
)
def test_gradients_that_moved_either_way(new: list[float], finding: Finding) -> None:
    old = np.array([20.1, 19.8, 20.3, 19.9, 20.2, 19.7])
    change = compare_gradient(
        "last/train/loss", measure(old), measure(np.array(new)), matters=0.1, level=Level(0.025, 60)
    )
    assert change.finding is finding


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_counts_without_spread_are_compared_too(value: float) -> None:
    old, same, other = (measure(np.full(4, number)) for number in (value, value, value + 1))
    level = Level(0.025, 60)
    assert compare_gradient("count", old, same, matters=0.1, level=level).finding is Finding.OK
    assert compare_gradient("count", old, other, matters=0.1, level=level).finding is Finding.REGRESSION


def test_the_worst_finding_is_that_of_the_suite() -> None:
    assert overall([Finding.OK, Finding.IMPROVEMENT]) is Finding.IMPROVEMENT
    assert overall([Finding.OK, Finding.INCONCLUSIVE, Finding.REGRESSION]) is Finding.REGRESSION
    assert overall([]) is Finding.UNKNOWN


def test_a_metric_is_measured_over_the_seeds_that_have_it() -> None:
    assert measure_over_seeds({1: {"a": 1.0}, 2: {"b": 5.0}, 3: {"a": 3.0}}, "a") == Measure(2.0, 1.0, 2)
    assert measure_over_seeds({1: {"a": 1.0}}, "c") is None
