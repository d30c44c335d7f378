"""The statistics of a rerun, checked against scipy and on simulated suites."""

import numpy as np
import pytest
from scipy import stats

from orchestrator.regression.comparison import (
    POWER,
    Finding,
    compare_gradient,
    compare_score,
    detectable,
    level_of,
    overall,
    seeds_needed,
)
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import measure, pooled_spread, standard_error
from tests.support.regression_rates import is_found

ACCEPTED = np.array([410.0, 414.0, 406.0, 411.0, 409.0, 413.0])


def runs(values: np.ndarray) -> Runs:
    """Return seeds with these values of a score and of a count."""
    return Runs.of_seeds("", {seed: {"rsum": value, "count": value} for seed, value in enumerate(values.tolist())})


def test_the_pool_is_the_residual_spread_of_an_analysis_of_variance() -> None:
    samples = [np.array([1.0, 2.0, 6.0]), np.array([10.0, 14.0]), np.array([5.0])]
    residuals = np.concatenate([values - values.mean() for values in samples])
    spread, freedom = pooled_spread([measure(values) for values in samples])
    assert freedom == 3
    assert spread == pytest.approx(np.sqrt((residuals**2).sum() / 3))


def test_a_score_is_compared_by_students_test() -> None:
    new = np.array([401.0, 399.0, 405.0])
    change = compare_score(runs(ACCEPTED), runs(new), "rsum", matters=5, level=level_of(0.05, 1))
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
    change = compare_score(runs(ACCEPTED), runs(new), "rsum", matters=matters, level=level_of(0.05, 7))
    assert change.finding is finding
    assert (change.needed is None) == (finding is not Finding.INCONCLUSIVE)


def test_the_seeds_asked_for_settle_it_nine_times_in_ten() -> None:
    count = seeds_needed(2.0, (20, 19), 2.5, more_than=2)
    rng = np.random.default_rng(0)

    def settled(seeds: int) -> float:
        old, new = rng.normal(0, 2, (20_000, 20)), rng.normal(0, 2, (20_000, seeds))
        upper = stats.ttest_ind(old, new, axis=1).confidence_interval(0.9).high
        return float((upper < 2.5).mean())

    assert settled(count) >= 0.89
    assert settled(count - 1) < 0.9
    assert seeds_needed(10.0, (2, 1), 5.0, more_than=3) is None, "too few were accepted"


SUITES = 20_000
SEEDS = (6, 3)


@pytest.mark.parametrize(
    "spreads",
    [
        pytest.param([1.0] * 7, id="equal"),
        pytest.param([3.0] + [1.0] * 6, id="one is wider"),
        pytest.param([5.0] * 4 + [1.0] * 12, id="four noisy cells of sixteen"),
        pytest.param([0.1] * 15 + [1.0], id="one noisy cell among quiet cells"),
    ],
)
def test_unchanged_suites_raise_as_many_alarms_as_stated(spreads: list[float]) -> None:
    """Every drop matters here, so that only the noise is tested; the tests of a suite are independent."""
    rng = np.random.default_rng(1)
    scale = np.array(spreads)[:, None]
    level = level_of(0.025, len(spreads))
    old, new = (scale * rng.standard_normal((SUITES, len(spreads), count)) for count in SEEDS)
    spread = np.sqrt((5 * old.var(-1, ddof=1) + 2 * new.var(-1, ddof=1)) / 7)
    drop, error = old.mean(-1) - new.mean(-1), standard_error(1.0, SEEDS) * spread
    found = is_found(drop, error, 7, matters=0.0, level=level)
    assert found.any(axis=1).mean() == pytest.approx(0.025, abs=0.004)
    for index in range(20):
        changes = [
            compare_score(runs(first), runs(second), "rsum", matters=1e-9, level=level)
            for first, second in zip(old[index], new[index], strict=True)
        ]
        assert [change.finding is Finding.REGRESSION for change in changes] == found[index].tolist()


@pytest.mark.parametrize("seeds", [(6, 3), (6, 6), (5, 2)], ids=str)
@pytest.mark.parametrize("matters", [0.1, 1.0, 3.0, 8.0], ids="matters {} standard deviations".format)
def test_the_detectable_drop_is_found_as_often_as_stated(matters: float, seeds: tuple[int, int]) -> None:
    """Simulated with scipy's test and both conditions; a drop of just what matters is found in half of the cases."""
    rng = np.random.default_rng(2)
    level = 0.025 / 7
    found = detectable(standard_error(1.0, seeds), sum(seeds) - 2, matters=matters, level=level)
    assert found > matters
    for drop, low, high in ((matters, 0.0, 0.512), (found, POWER - 0.012, POWER + 0.012)):
        old, new = rng.normal(0, 1, (SUITES, seeds[0])), rng.normal(-drop, 1, (SUITES, seeds[1]))
        observed, p = old.mean(-1) - new.mean(-1), stats.ttest_ind(old, new, axis=-1, alternative="greater").pvalue
        assert low <= ((p <= level) & (observed >= matters)).mean() <= high


@pytest.mark.parametrize("spread", [1.0, 3.0, 6.0])
def test_the_detectable_change_of_a_count_is_found_as_often_as_stated(spread: float) -> None:
    level = level_of(0.025, 60)
    typical = runs(spread * np.array([-1.0, 1, -1, 1, -1, 1]) / np.sqrt(1.2) + 100)
    new = runs(np.array([100 - spread, 100, 100 + spread]))
    change = compare_gradient(typical, new, "count", matters=0.1, level=level)
    assert change.spread == pytest.approx(spread)
    for moved in (change.detectable, -change.detectable):
        rng = np.random.default_rng(3)
        old, later = rng.normal(100, spread, (SUITES, 6)), rng.normal(100 + moved, spread, (SUITES, 3))
        significant = stats.ttest_ind(old, later, axis=1).pvalue <= level
        found = significant & (np.abs(later.mean(1) - old.mean(1)) >= 10)
        assert found.mean() == pytest.approx(POWER, abs=0.012)


def test_unchanged_gradients_raise_as_many_alarms_as_stated_both_ways_together() -> None:
    rng = np.random.default_rng(4)
    old, new = rng.normal(100, 5, (100_000, 6)), rng.normal(100, 5, (100_000, 3))
    spread = np.sqrt((5 * old.var(-1, ddof=1) + 2 * new.var(-1, ddof=1)) / 7)
    change = new.mean(-1) - old.mean(-1)
    found = is_found(np.abs(change), spread * standard_error(1.0, SEEDS), 7, matters=0.0, level=0.02 / 2)
    assert found.mean() == pytest.approx(0.02, abs=0.0015)
    assert (found & (change > 0)).mean() == pytest.approx(0.01, abs=0.0012)
    for index in range(400):
        before, after = runs(old[index]), runs(new[index])
        one = compare_gradient(before, after, "count", matters=1e-9, level=0.02)
        assert (one.finding is Finding.CHANGED) == found[index]
        assert one.p == pytest.approx(stats.ttest_ind(old[index], new[index]).pvalue)


@pytest.mark.parametrize(
    ("new", "finding"),
    [
        pytest.param([20.0, 20.4, 19.7], Finding.OK, id="the same"),
        pytest.param([21.0, 21.3, 20.8], Finding.OK, id="moved by less than matters"),
        pytest.param([31.0, 30.4, 29.9], Finding.CHANGED, id="more"),
        pytest.param([9.0, 10.4, 10.1], Finding.CHANGED, id="less"),
        pytest.param([-20.0, -20.4, -19.7], Finding.CHANGED, id="sign flipped"),
    ],
)
def test_gradients_that_moved_either_way(new: list[float], finding: Finding) -> None:
    old = np.array([20.1, 19.8, 20.3, 19.9, 20.2, 19.7])
    change = compare_gradient(runs(old), runs(np.array(new)), "count", matters=0.1, level=level_of(0.025, 60))
    assert change.finding is finding


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_counts_without_spread_are_compared_too(value: float) -> None:
    old, other = runs(np.full(4, value)), runs(np.full(4, value + 1))
    findings = [compare_gradient(old, new, "count", matters=0.1, level=0.001).finding for new in (old, other)]
    assert findings == [Finding.OK, Finding.CHANGED]


def test_the_worst_finding_is_that_of_the_suite() -> None:
    assert overall([Finding.OK, Finding.IMPROVEMENT]) is Finding.IMPROVEMENT
    assert overall([Finding.OK, Finding.INCONCLUSIVE, Finding.REGRESSION]) is Finding.REGRESSION
    assert overall([]) is Finding.UNKNOWN
