"""Seeds and images together: the test against its parts by hand, and how often it errs where the truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.results.crossed import crossed_test
from tests.support.crossed_runs import Effects, draw_runs

LEVEL = 0.04


def parts_by_hand(runs: np.ndarray) -> tuple[float, float]:
    """Return variance of the run means / S and mean square of the rest / (S I), one value at a time."""
    seeds, images = runs.shape
    if seeds == 1:
        return 0.0, 0.0
    of_run = [sum(row) / images for row in runs]
    of_image = [sum(runs[s][i] for s in range(seeds)) / seeds for i in range(images)]
    mean = sum(of_run) / seeds
    between = sum((one - mean) ** 2 for one in of_run) / (seeds - 1)
    rest = sum((runs[s][i] - of_run[s] - of_image[i] + mean) ** 2 for s in range(seeds) for i in range(images))
    return between / seeds, rest / ((seeds - 1) * (images - 1)) / (seeds * images)


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    images=st.integers(2, 12),
    spread=st.sampled_from([0.0, 0.3, 5.0]),
    seed=st.integers(0, 999),
)
def test_the_variance_is_that_of_a_crossed_design(
    seeds: tuple[int, int], images: int, spread: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    first, second = (
        spread * generator.standard_normal((count, 1)) + generator.standard_normal((count, images)) for count in seeds
    )
    test = crossed_test(first, second)
    assert test is not None
    (a1, c1), (a2, c2) = parts_by_hand(first), parts_by_hand(second)
    b = float(np.var(first.mean(0) - second.mean(0), ddof=1)) / images
    assert test.error**2 == pytest.approx(max(a1 + a2 + b - c1 - c2, b, a1 + a2))
    assert test.difference == pytest.approx(first.mean() - second.mean())
    assert test.p == pytest.approx(2 * stats.t.sf(abs(test.difference) / test.error, test.freedom))
    assert crossed_test(second, first).p == pytest.approx(test.p)


def test_without_seeds_it_is_the_paired_test_over_images() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.standard_normal((2, 40))
    test = crossed_test(first[None], second[None])
    assert test is not None
    expected = stats.ttest_rel(first, second)
    assert (test.p, test.freedom) == (pytest.approx(expected.pvalue), pytest.approx(39))
    low, high = expected.confidence_interval(0.95)
    assert (test.interval.low, test.interval.high) == (pytest.approx(low), pytest.approx(high))
    assert test.seed_variance == 0


def test_where_images_do_not_matter_it_is_welchs_test() -> None:
    """Equal values for all images: what is left is what Welch's test sees, with no more degrees of freedom."""
    first = np.repeat([[1.0], [2.5], [2.0]], 50, axis=1)
    second = np.repeat([[0.5], [0.1], [0.9]], 50, axis=1)
    test = crossed_test(first, second)
    welch = stats.ttest_ind(first[:, 0], second[:, 0], equal_var=False)
    assert test is not None
    assert (test.p, test.freedom) == (pytest.approx(welch.pvalue), pytest.approx(welch.df))
    assert test.image_variance == pytest.approx(0)


def test_the_confidence_in_a_lead_falls_with_what_is_asked_of_it() -> None:
    generator = np.random.default_rng(2)
    runs = generator.standard_normal((2, 3, 30)) + generator.standard_normal((2, 3, 1))
    test = crossed_test(runs[0] + 1, runs[1])
    assert test is not None
    least = [test.probability_beyond(margin) for margin in np.linspace(-9, 9, 19)]
    assert least == sorted(least, reverse=True)
    assert test.probability_beyond(test.difference) == pytest.approx(0.5)
    assert test.probability_beyond(0) == pytest.approx(1 - test.p / 2 if test.difference > 0 else test.p / 2)
    low, high = test.interval.low, test.interval.high
    assert (test.probability_beyond(low), test.probability_beyond(high)) == (
        pytest.approx(0.975),
        pytest.approx(0.025),
    )
    assert test.reach() == pytest.approx((high - low) / 2)
    assert test.reach() > test.reach(seeds=2) > test.reach(seeds=2, images=2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(np.ones((3, 1)), np.zeros((3, 1)), id="one image"),
        pytest.param(np.ones((3, 9)), np.zeros((3, 9)), id="nothing varies"),
        pytest.param(np.ones((1, 9)), np.zeros((1, 9)), id="nothing varies, without seeds"),
    ],
)
def test_without_any_spread_there_is_no_test(first: np.ndarray, second: np.ndarray) -> None:
    assert crossed_test(first, second) is None


def error_rate(effects: Effects, seeds: tuple[int, int], studies: int = 2000) -> float:
    """Return the share of pairs without a difference that are called different."""
    generator = np.random.default_rng(20220405)
    found = 0
    for _ in range(studies):
        (runs,) = draw_runs(generator, effects, seeds)
        test = crossed_test(runs[0], runs[1])
        assert test is not None
        found += test.p <= LEVEL
    return found / studies


@pytest.mark.parametrize(
    ("effects", "seeds", "most"),
    [
        pytest.param(Effects(seeds=0.0), (5, 5), 0.04, id="images alone"),
        pytest.param(Effects(seeds=1.0), (5, 5), 0.04, id="seeds and images alike"),
        pytest.param(Effects(seeds=8.0), (5, 5), 0.04, id="seeds most of all"),
        pytest.param(Effects(seeds=1.0), (3, 3), 0.04, id="three seeds"),
        pytest.param(Effects(seeds=3.0, spreads=(4.0, 1.0)), (3, 3), 0.05, id="three seeds, unequal spreads"),
        pytest.param(Effects(seeds=3.0), (5, 0), 0.045, id="one without seeds"),
        pytest.param(Effects(seeds=3.0), (3, 0), 0.055, id="three seeds, one without"),
        pytest.param(Effects(), (0, 0), 0.04, id="both without seeds"),
    ],
)
def test_what_does_not_differ_is_seldom_called_different(effects: Effects, seeds: tuple[int, int], most: float) -> None:
    # Two standard errors above the stated rate.
    assert error_rate(effects, seeds) <= most + 2 * np.sqrt(most / 2000)


def test_a_lead_is_found() -> None:
    assert error_rate(Effects(seeds=1.0, lead=5.0), (5, 5), 400) > 0.9
