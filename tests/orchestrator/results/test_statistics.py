"""The statistics of a handful of seeds against scipy, against loops written from the formulas, and by simulation."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Interval, Measure, holm, t_interval, welch_test
from orchestrator.results.verdict import judge
from trainables.metric_table import counts, may_select, range_of
from trainables.metrics import retrieval_metrics

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


def test_one_value_has_no_interval_and_equal_values_a_point():
    assert t_interval(np.array([1.0])) is None and Measure(1.0, 0.0, 1).sample_std is None
    assert t_interval(np.array([2.0] * 3)) == Interval(2.0, 2.0)


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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, level):
    rejected = set()
    for done, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] * (len(p_values) - done) > level:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected


PAIRS = torch.eye(20, dtype=torch.bool)


def test_perfect_and_hopeless_similarities_reach_the_ends() -> None:
    perfect = retrieval_metrics(PAIRS.double(), PAIRS)
    hopeless = retrieval_metrics(1 - PAIRS.double(), PAIRS)
    for metric, value in perfect.items():
        ends = range_of(f"test/{metric}")
        if ends[1] == math.inf:
            assert (value, hopeless[metric]) == (ends[0], 20.0)
        elif first := re.search(r"_p(\d+)$", metric):
            # A query has one positive, which is one of the first 5 or 10.
            assert (hopeless[metric], value) == (ends[0], ends[1] / int(first[1]))
        else:
            assert (hopeless[metric], value) == ends


def test_every_metric_that_can_be_searched_for_has_two_ends() -> None:
    assert all(math.isfinite(end) for metric in may_select() for end in range_of(metric))
    assert range_of(counts()[0]) == (0, math.inf)
    assert range_of("loss/temperature") == (-math.inf, math.inf)


@pytest.mark.parametrize("metric", ["test/rsum", "test/i2t_r1", "test/t2i_map5", "test/judged_cxc/map_r_condensed"])
@given(data=st.data())
def test_no_interval_leaves_the_range_of_its_metric(metric: str, data: st.DataObject) -> None:
    low, high = range_of(metric)
    seeds = data.draw(st.integers(2, 5))
    runs = st.lists(st.floats(low, high), min_size=seeds, max_size=seeds)
    candidates = [
        Runs.of_seeds(loss, {seed: {metric: value} for seed, value in enumerate(data.draw(runs))}, loss=loss)
        for loss in ("nt_xent", "triplet_sh")
    ]
    verdict = judge(candidates, metric=metric, selection=metric)
    for candidate in verdict.candidates:
        student = candidate.interval(metric)
        assert student is not None
        assert low <= student.low <= student.high <= high
        assert student.low - 1e-9 <= candidate.mean(metric) <= student.high + 1e-9
    for pair in verdict.pairs:
        if pair.interval is not None:
            assert low - high <= pair.interval.low <= pair.interval.high <= high - low
