"""Main effects and rank correlations against plain loops, and what must hold of them whatever the data."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.space import FEWEST, main_effect, rank_correlation
from orchestrator.report.space_figures import smooth

RANDOM = np.random.default_rng(0)


def test_words_give_epsilon_squared_of_the_formula() -> None:
    words = ["a", "b", "c"] * 8
    values = [float(v) for v in RANDOM.normal(size=24) + np.array([0, 1, 3] * 8)]
    mean = sum(values) / 24
    between = within = 0.0
    for word in "abc":
        group = [value for name, value in zip(words, values, strict=True) if name == word]
        centre = sum(group) / len(group)
        between += len(group) * (centre - mean) ** 2
        within += sum((value - centre) ** 2 for value in group)
    expected = (between - 2 * within / 21) / (between + within)
    assert main_effect(words, values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("shape", "least", "most"),
    [
        pytest.param(lambda x: x, 0.9, 1.0, id="straight"),
        pytest.param(lambda x: -((x - 0.5) ** 2), 0.85, 1.0, id="peak-in-the-middle"),
        pytest.param(lambda x: RANDOM.normal(size=len(x)), 0.0, 0.06, id="no-effect"),
    ],
)
def test_effects_of_any_shape_are_found(shape, least: float, most: float) -> None:
    x = RANDOM.random(400)
    share = main_effect(x.tolist(), shape(x).tolist())
    assert share is not None
    assert least <= share <= most


@pytest.mark.parametrize(
    ("values", "metric"),
    [
        pytest.param([0.1] * (FEWEST - 1), [1.0] * (FEWEST - 1), id="too-few"),
        pytest.param([0.1] * 20, list(range(20)), id="parameter-constant"),
        pytest.param(list(range(20)), [5.0] * 20, id="metric-constant"),
        pytest.param([str(n) for n in range(20)], list(range(20)), id="every-word-once"),
        pytest.param([], [], id="empty"),
    ],
)
def test_what_cannot_be_told_is_none(values: list, metric: list[float]) -> None:
    assert main_effect(values, metric) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-5, 5)), min_size=FEWEST, max_size=60), st.randoms())
def test_order_of_trials_changes_nothing(pairs: list[tuple[int, int]], random) -> None:
    share = main_effect([x for x, _ in pairs], [float(y) for _, y in pairs])
    shuffled = random.sample(pairs, len(pairs))
    again = main_effect([x for x, _ in shuffled], [float(y) for _, y in shuffled])
    assert share == again or share == pytest.approx(again)
    assert share is None or 0 <= share <= 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=40))
def test_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = rank_correlation(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic)


def test_smooth_mean_is_the_weighted_mean_and_blank_far_from_trials() -> None:
    points, values = np.array([[0.2, 0.3], [0.25, 0.3], [0.9, 0.9]]), np.array([1.0, 2.0, 9.0])
    places = np.array([[0.22, 0.31], [0.0, 1.0]])
    width = 0.5 * 3 ** (-1 / 6)
    weights = [np.exp(-((place - point) ** 2).sum() / (2 * width**2)) for place in places[:1] for point in points]
    found = smooth(points, values, places)
    assert found[0] == pytest.approx(float(np.dot(weights, values) / sum(weights)))
    assert np.isnan(smooth(points[:1], values[:1], np.array([[1.0, 1.0]]))[0])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(-100, 100))
def test_smooth_mean_of_a_constant_is_the_constant(xs: list[float], constant: float) -> None:
    points = np.array(xs)[:, None]
    assert smooth(points, np.full(len(xs), constant), points) == pytest.approx(constant)
