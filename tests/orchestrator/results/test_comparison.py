"""Comparisons without correction: against scipy, over searches, and where there is no test."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.results.comparison import compare
from orchestrator.results.crossed import crossed_test
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.statistics import Measure

METRIC = "test/rsum"


def runs(label: str, values: Sequence[float], **about: object) -> Runs:
    return Runs.of_seeds(label, {seed: {METRIC: value} for seed, value in enumerate(values)}, **about)


def with_images(label: str, rows: np.ndarray) -> Runs:
    values = {seed: {METRIC: float(row.mean())} for seed, row in enumerate(rows)}
    return Runs.of_seeds(label, values, images={METRIC: dict(enumerate(rows))})


FIRST, SECOND = (350.0, 351.0, 353.0), (340.0, 346.0, 352.0, 349.0)


def test_seeds_are_compared_by_welchs_test() -> None:
    compared = compare(runs("a", FIRST), runs("b", SECOND), METRIC)
    oracle = scipy.stats.ttest_ind(FIRST, SECOND, equal_var=False)
    interval = oracle.confidence_interval(0.95)
    assert compared.difference == pytest.approx(np.mean(FIRST) - np.mean(SECOND))
    assert compared.p == pytest.approx(oracle.pvalue)
    assert compared.interval == pytest.approx((interval.low, interval.high))
    assert compared.varies == "seeds"
    above = scipy.stats.ttest_ind(np.array(FIRST) - 2.0, SECOND, equal_var=False, alternative="greater")
    assert compared.p_above(2.0) == pytest.approx(above.pvalue)


def test_a_published_mean_is_compared_by_the_same_test() -> None:
    sides = (runs("a", FIRST), runs("b", SECOND))
    row = Runs("b", means={METRIC: sides[1].measure(METRIC)})
    assert compare(sides[0], row, METRIC).p == pytest.approx(compare(*sides, METRIC).p)
    alone = Runs("b", means={METRIC: Measure(300.0, None, 1)})
    assert (
        compare(sides[0], alone, METRIC).reason == "a test needs the deviation over at least two runs of each candidate"
    )


def test_images_vary_where_they_are_asked_for_and_known() -> None:
    generator = np.random.default_rng(0)
    rows = [generator.normal(300, 20, (3, 40)) for _ in range(2)]
    first, second = (with_images(label, of) for label, of in zip("ab", rows, strict=True))
    compared = compare(first, second, METRIC, over_images=True)
    assert compared.test == crossed_test(rows[0], rows[1])
    assert (compared.varies, compared.images) == ("seeds_and_images", 40)
    assert compare(first, second, METRIC).varies == "seeds"
    assert compare(first, runs("b", second.sample(METRIC)), METRIC, over_images=True).varies == "seeds"


def test_seeds_of_one_search_are_no_independent_values_of_a_loss() -> None:
    """Four searches of five seeds are four values, as one seed a search would be."""
    generator = np.random.default_rng(1)
    settings = generator.normal(200, 8, (2, 4))
    values = settings[..., None] + generator.normal(0, 0.1, (2, 4, 5))
    sides = [
        Runs(label, {RunId(s, seed): {METRIC: of[s, seed]} for s in range(4) for seed in range(5)})
        for label, of in zip("ab", values, strict=True)
    ]
    compared = compare(sides[0], sides[1], METRIC)
    oracle = scipy.stats.ttest_ind(*values.mean(2), equal_var=False)
    assert (compared.varies, compared.p) == ("searches", pytest.approx(oracle.pvalue))
    once = compare(sides[0], runs("b", values[1, 0]), METRIC)
    assert (once.test, once.reason) == (None, "a test needs at least two searches of each candidate")


def constant(value: float, images: np.ndarray | None = None) -> Runs:
    row = runs("zero-shot", [value], has_seeds=False) if images is None else with_images("zero-shot", images[None])
    return replace(row, has_seeds=False, is_constant=True)


SEARCHED = (350.0, 351.5, 353.0, 349.0)


def searched(values: Sequence[float], luck: float | None = None, images: np.ndarray | None = None) -> Runs:
    """A loss with a value for each search, and its luck where it is known."""
    of_run = {} if images is None else {METRIC: {RunId(number, 0): row for number, row in enumerate(images)}}
    known = {} if luck is None else {METRIC: luck}
    values_of = {RunId(number, 0): {METRIC: value} for number, value in enumerate(values)}
    return Runs("loss", values_of, is_repeated=True, images=of_run, luck=known)


def test_searches_against_a_constant_are_a_one_sample_test() -> None:
    compared = compare(searched(SEARCHED, luck=1e-9), constant(347.0), METRIC)
    oracle = scipy.stats.ttest_1samp(SEARCHED, 347.0)
    interval = oracle.confidence_interval(0.95)
    assert (compared.varies, compared.p) == ("searches", pytest.approx(oracle.pvalue))
    assert compared.interval == pytest.approx((interval.low - 347.0, interval.high - 347.0))
    turned = compare(constant(347.0), searched(SEARCHED, luck=1e-9), METRIC)
    assert (turned.difference, turned.p) == (-compared.difference, compared.p)
    # All trials say that another search would move further than these did, or nothing is known of that.
    statistic = (np.mean(SEARCHED) - 347.0) / np.sqrt(16.0 / 4)
    assert compare(searched(SEARCHED, luck=16.0), constant(347.0), METRIC).p == pytest.approx(
        2 * scipy.stats.t.sf(statistic, 3)
    )
    unknown = compare(searched(SEARCHED), constant(347.0), METRIC)
    assert unknown.p == pytest.approx(2 * scipy.stats.t.sf(oracle.statistic, 1.5))
    # A model that was trained is not a constant: another search would give it another value.
    assert compare(searched(SEARCHED), lone("a", 347.0), METRIC).test is None


def test_the_images_of_a_constant_vary_beside_the_searches() -> None:
    generator = np.random.default_rng(0)
    hard = generator.normal(0, 20, 40)
    rows = 300 + hard + generator.normal(0, 3, (4, 40)) + generator.normal(0, 2, (4, 1))
    fixed = 298 + hard + generator.normal(0, 3, 40)
    compared = compare(
        searched(rows.mean(1), luck=1e-9, images=rows), constant(float(fixed.mean()), fixed), METRIC, over_images=True
    )
    assert (compared.varies, compared.images) == ("searches_and_images", 40)
    # The oracle: variance of searches, plus that of the images, minus their joint part, which both count.
    of_searches = rows.mean(1).var(ddof=1) / 4
    left = rows - rows.mean(0) - rows.mean(1, keepdims=True) + rows.mean()
    joint = (left**2).sum() / (3 * 39) / (4 * 40)
    of_images = (rows.mean(0) - fixed).var(ddof=1) / 40
    total = max(of_searches + of_images - joint, of_images, of_searches)
    freedom = (of_searches * (1 + 2 / 3) + total - of_searches) ** 2
    freedom /= (of_searches * (1 + 2 / 3)) ** 2 / 3 + (total - of_searches) ** 2 / 39
    statistic = abs(rows.mean() - fixed.mean()) / np.sqrt(total)
    assert compared.p == pytest.approx(2 * scipy.stats.t.sf(statistic, freedom))


def lone(label: str, value: float) -> Runs:
    return runs(label, [value], has_seeds=False)


@pytest.mark.parametrize(
    ("first", "second", "reason", "is_exact"),
    [
        pytest.param(runs("a", [9.0]), runs("b", [1.0, 2.0]), "at least two seeds of each", False, id="one seed"),
        pytest.param(
            runs("a", [9.0, 9.0]), runs("b", [1.0, 1.0]), "no candidate varies over its seeds", False, id="rigid"
        ),
        pytest.param(runs("a", [9.0, 9.0]), runs("b", [9.0, 9.0]), "have the same value", True, id="equal"),
        pytest.param(lone("a", 9.0), lone("b", 1.0), "difference is exact", True, id="exact"),
        pytest.param(lone("a", 9.0), lone("b", 9.0), "both have the same", True, id="alike"),
    ],
)
def test_where_there_is_no_test_a_reason_says_why(first: Runs, second: Runs, reason: str, is_exact: bool) -> None:
    compared = compare(first, second, METRIC)
    assert (compared.test, compared.p, compared.interval) == (None, None, None)
    assert reason in compared.reason and compared.is_exact is is_exact


@given(st.lists(st.integers(0, 50), min_size=2, max_size=5), st.lists(st.integers(0, 50), min_size=2, max_size=5))
def test_a_comparison_turned_is_that_of_the_other_order(first: list[int], second: list[int]) -> None:
    a, b = runs("a", first), runs("b", second)
    turned, other = compare(a, b, METRIC).turned(), compare(b, a, METRIC)
    assert (turned.first, turned.second, turned.difference) == (
        other.first,
        other.second,
        pytest.approx(other.difference),
    )
    assert (turned.p is None) == (other.p is None)
    if other.p is not None:
        assert turned.p == pytest.approx(other.p)
        assert turned.interval == pytest.approx(other.interval)


def test_no_interval_has_differences_that_the_metric_cannot_have() -> None:
    compared = compare(runs("a", [599.0, 600.0]), runs("b", [1.0, 500.0]), METRIC)
    assert compared.interval is not None and compared.interval.high == 600.0
