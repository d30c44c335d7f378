"""The statistics of a handful of seeds against scipy, against loops written from the formulas, and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.results.statistics import (
    Interval,
    Measure,
    _resampling,
    bootstrap_interval,
    hedges_g,
    holm,
    measure,
    paired_p,
    t_interval,
    welch_p,
    welch_test,
)

SAMPLES = [
    pytest.param([300.1, 302.4, 299.7], [305.0, 306.2, 304.4], id="3 against 3"),
    pytest.param([402.0, 399.3, 398.4, 400.3, 395.0], [377.8, 379.0, 376.6, 377.1, 378.4], id="5 against 5"),
    pytest.param([1.0, 2.0], [1.5, 9.0, -4.0, 3.0], id="2 against 4, unequal spreads"),
    pytest.param(
        [5.0, 5.0, 5.0],
        [5.1, 5.3, 4.9],
        id="one side without spread",
        marks=pytest.mark.filterwarnings("ignore:Precision loss"),
    ),
    pytest.param([1e-6, 3e-6, 2e-6], [2e-6, 2.5e-6, 9e-6], id="tiny"),
]


@pytest.mark.parametrize(("first", "second"), SAMPLES)
def test_welch_is_scipys(first, second):
    from scipy import stats

    expected = stats.ttest_ind(first, second, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    got = welch_test(np.array(first), np.array(second))
    assert got.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (got.interval.low, got.interval.high) == pytest.approx((low, high), rel=1e-9)
    assert got.difference == pytest.approx(np.mean(first) - np.mean(second))
    assert welch_p(measure(np.array(first)), measure(np.array(second))) == pytest.approx(expected.pvalue, rel=1e-9)


@pytest.mark.parametrize(("first", "second"), [row for row in SAMPLES if len(row.values[0]) == len(row.values[1])])
def test_paired_is_scipys(first, second):
    from scipy import stats

    expected = stats.ttest_rel(first, second).pvalue
    assert paired_p(np.array(first) - np.array(second)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("values", [[1.0, 2.0], [3.0, 3.5, 9.0], [402.0, 399.3, 398.4, 400.3, 395.0]], ids=len)
def test_student_interval_is_scipys(values):
    from scipy import stats

    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    interval = t_interval(np.array(values))
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param([1.0], [1.0, 2.0, 3.0], id="one seed"),
        pytest.param([1.0, 2.0, 3.0], [1.0], id="one seed on the other side"),
        pytest.param([1.0, 1.0], [2.0, 2.0], id="no spread on either side"),
        pytest.param([0.1 + 0.2] * 3, [0.3, 0.3, 0.1 + 0.2], id="spread of rounding alone"),
    ],
)
def test_no_welch_test_without_spread(first, second):
    assert welch_test(np.array(first), np.array(second)) is None
    assert welch_p(measure(np.array(first)), measure(np.array(second))) is None


@pytest.mark.parametrize("differences", [[], [1.0], [2.0, 2.0, 2.0], [0.0, 0.0]], ids=str)
def test_no_paired_test_without_spread(differences):
    assert paired_p(np.array(differences)) is None


def test_one_value_has_no_interval_and_equal_values_a_point():
    assert t_interval(np.array([1.0])) is bootstrap_interval(np.array([1.0]), seed=0) is None
    assert bootstrap_interval(np.array([2.0] * 3), seed=0) == t_interval(np.array([2.0] * 3)) == Interval(2.0, 2.0)


def test_the_resamples_of_candidates_with_equally_many_seeds_are_drawn_once():
    _resampling.cache_clear()
    first, again, more = (
        bootstrap_interval(np.array(values), seed=9, resamples=1000)
        for values in ([1.0, 2.0, 4.0], [11.0, 12.0, 14.0], [1.0, 2.0, 4.0, 5.0])
    )
    assert _resampling.cache_info().misses == 2
    assert (again.low, again.high) == pytest.approx((first.low + 10, first.high + 10))
    assert more.high != first.high


def test_two_values_are_too_few_for_a_bootstrap():
    assert bootstrap_interval(np.array([60.0, 92.0]), seed=0) is None


def test_published_cell_from_its_runs():
    runs = measure(np.array([402.0, 399.3, 398.4, 400.3, 395.0]))
    assert (round(runs.mean, 1), round(runs.std, 1), runs.seeds) == (399.0, 2.3, 5)


@pytest.mark.parametrize(("mean", "std"), [(float("nan"), 0.0), (float("inf"), None), (1.0, float("nan"))])
def test_a_measure_is_finite(mean, std):
    with pytest.raises(ValueError, match="must be finite, got"):
        Measure(mean, std, 5)


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0.04], [0.04], id="one"),
        pytest.param([0.01, 0.04, 0.03], [0.03, 0.06, 0.06], id="made monotone"),
        pytest.param([0.5, 0.9], [1.0, 1.0], id="never above one"),
        pytest.param([0.02, 0.02], [0.04, 0.04], id="equal"),
    ],
)
def test_holm_by_hand(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, level):
    rejected = set()
    for done, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] * (len(p_values) - done) > level:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected


def test_hedges_g_from_its_definition():
    first, second = [402.0, 399.3, 398.4, 400.3, 395.0], [377.8, 379.0, 376.6]
    squares = sum((x - sum(first) / 5) ** 2 for x in first) + sum((x - sum(second) / 3) ** 2 for x in second)
    exact = math.gamma(3) / (math.sqrt(3) * math.gamma(2.5))
    cohens_d = (sum(first) / 5 - sum(second) / 3) / math.sqrt(squares / 6)
    assert hedges_g(np.array(first), np.array(second)) == pytest.approx(cohens_d * exact, rel=2e-3)


def test_hedges_g_is_unbiased_for_three_seeds():
    draws = np.random.default_rng(0).standard_normal((4000, 6))
    effects = [hedges_g(row[:3] + 2, row[3:]) for row in draws]
    assert np.mean(effects) == pytest.approx(2, abs=0.12)


@pytest.mark.parametrize("n", [3, pytest.param(4, marks=pytest.mark.proof), pytest.param(5, marks=pytest.mark.proof)])
def test_intervals_hold_the_mean_as_often_as_they_say(n):
    samples = np.random.default_rng(n).standard_normal((500, n))
    for interval_of in (t_interval, lambda values: bootstrap_interval(values, seed=1, resamples=1000)):
        intervals = [interval_of(values) for values in samples]
        assert 0.92 <= np.mean([interval.low <= 0 <= interval.high for interval in intervals]) <= 0.98


@pytest.mark.proof
@pytest.mark.parametrize("n", [3, 4, 5])
def test_for_exponential_values_intervals_cover_as_often_as_is_said(n):
    samples = np.random.default_rng(n).exponential(size=(1500, n)) - 1
    for interval_of, stated in (
        (lambda values: bootstrap_interval(values, seed=1, resamples=1000), 0.905),
        (t_interval, 0.875),
    ):
        intervals = [interval_of(values) for values in samples]
        assert np.mean([interval.low <= 0 <= interval.high for interval in intervals]) == pytest.approx(
            stated, abs=0.02
        )


@settings(deadline=None)
@given(
    values=st.lists(st.integers(0, 600), min_size=3, max_size=6),
    scale=st.floats(0.01, 100),
    shift=st.floats(-500, 500),
)
def test_bootstrap_moves_and_stretches_with_the_values(values, scale, shift):
    plain = bootstrap_interval(np.array(values, float), seed=3, resamples=200)
    moved = bootstrap_interval(np.array(values, float) * scale + shift, seed=3, resamples=200)
    expected = (plain.low * scale + shift, plain.high * scale + shift)
    assert (moved.low, moved.high) == pytest.approx(expected, rel=1e-6, abs=1e-6 * (1 + scale))


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 600), min_size=2, max_size=6),
    st.lists(st.floats(0, 600), min_size=2, max_size=6),
)
def test_swapping_the_samples_turns_the_signs(first, second):
    there, back = welch_test(np.array(first), np.array(second)), welch_test(np.array(second), np.array(first))
    if there is None:
        assert back is None
    else:
        assert there.p == pytest.approx(back.p)
        assert (there.interval.low, there.difference) == pytest.approx((-back.interval.high, -back.difference))
        effects = [hedges_g(np.array(one), np.array(other)) for one, other in ((first, second), (second, first))]
        assert effects[0] == pytest.approx(-effects[1])
