"""Seeds and images together: the test against its parts by hand, and how often it errs where the truth is known."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.results.crossed import crossed_test
from orchestrator.results.statistics import DifferenceTest
from tests.support.crossed_runs import Effects, draw_runs
from trainables.metric_table import METRICS, keys_of
from trainables.metric_values import image_values
from trainables.metrics import metrics_of_ranks
from trainables.ranks import Ranks

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


@settings(max_examples=60)
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
    assert (test.p, test.freedom) == (pytest.approx(welch.pvalue), pytest.approx(welch.df))
    assert test.image_variance == pytest.approx(0)


def test_the_confidence_in_a_lead_falls_with_what_is_asked_of_it() -> None:
    generator = np.random.default_rng(2)
    runs = generator.standard_normal((2, 3, 30)) + generator.standard_normal((2, 3, 1))
    test = crossed_test(runs[0] + 1, runs[1])
    least = [test.probability_beyond(margin) for margin in np.linspace(-9, 9, 19)]
    assert least == sorted(least, reverse=True)
    assert test.probability_beyond(test.difference) == pytest.approx(0.5)
    assert test.probability_beyond(0) == pytest.approx(1 - test.p / 2 if test.difference > 0 else test.p / 2)
    low, high = test.interval.low, test.interval.high
    assert (test.probability_beyond(low), test.probability_beyond(high)) == (pytest.approx(0.975), pytest.approx(0.025))


def test_the_caution_about_few_seeds_lowers_the_degrees_of_freedom() -> None:
    """By hand, from the formulas at the head of the module: each A counts 1 + 2 / (S - 1) times there."""
    generator = np.random.default_rng(8)
    noise = generator.standard_normal((2, 3, 30)) + 0.3 * generator.standard_normal((2, 3, 1))
    first, second = noise + 2 * generator.standard_normal((2, 1, 30))
    test = crossed_test(first, second)
    ours, theirs = (runs.mean(1).var(ddof=1) / 3 for runs in (first, second))
    rest = test.error**2 - ours - theirs
    assert rest > ours
    weighed = [2 * ours, 2 * theirs]
    squares = sum(part**2 / 2 for part in weighed) + rest**2 / 29
    assert test.freedom == pytest.approx((sum(weighed) + rest) ** 2 / squares)


def test_more_seeds_reduce_their_own_part_and_the_joint_part() -> None:
    generator = np.random.default_rng(2)
    runs = 3 * generator.standard_normal((2, 1, 30)) + generator.standard_normal((2, 3, 30))
    parts = crossed_test(*(runs + 0.2 * generator.standard_normal((2, 3, 1))))
    assert parts.total == pytest.approx(parts.seed_variance + parts.image_variance + parts.joint_variance)
    for times in (1, 2, 4):
        more = parts.with_seeds(3 * times)
        assert more.total == pytest.approx((parts.seed_variance + parts.joint_variance) / times + parts.image_variance)
        assert more.image_variance == pytest.approx(parts.image_variance)
    assert parts.with_seeds(3).detectable(0.04) == pytest.approx(parts.detectable(0.04))
    assert parts.with_seeds(12).detectable(0.04) > 0.7 * parts.detectable(0.04), "images are most of this error"


# Studies as a product of random effects: standard deviation over seeds of each candidate, of the images, of both.
DETECTED = [
    pytest.param((1.0, 1.0), 0.0, 0.0, 1.6, id="seeds alone"),
    pytest.param((1.0, 1.0), 0.35, 0.2, 1.6, id="seeds and images"),
    pytest.param((0.5, 0.5), 0.6, 1.0, 2.7, id="mostly images"),
    pytest.param((0.4, 1.6), 0.3, 0.3, 1.8, id="unequal spreads"),
]


@pytest.mark.parametrize(("spreads", "of_image", "both", "difference"), DETECTED)
@pytest.mark.parametrize("level", [0.04, 0.005])
def test_the_seeds_that_are_named_detect_the_difference_in_eight_of_ten_studies(
    spreads: tuple[float, float], of_image: float, both: float, difference: float, level: float
) -> None:
    """The number is computed from the true variances; then whole studies of that size are drawn and tested."""
    images, studies = 40, 500
    seeds = [(spread**2 + both**2) / 2 for spread in spreads]
    parts = (seeds[0], seeds[1]), (both**2 / 2, both**2 / 2), (2, 2), sum(seeds) + of_image**2, images
    count = DifferenceTest(difference, *parts).needed_seeds(level)
    assert DifferenceTest(-difference, *parts).needed_seeds(level) == count
    generator = np.random.default_rng(3)
    found = 0
    for _ in range(studies):
        runs = []
        for number, spread in enumerate(spreads):
            own = spread * generator.standard_normal((count, 1)) + (difference if number == 0 else 0.0)
            image = of_image * np.sqrt(images / 2) * generator.standard_normal(images)
            runs.append(own + image + both * np.sqrt(images) * generator.standard_normal((count, images)))
        test = crossed_test(*runs)
        found += test.difference > 0 and test.p <= level
    assert 0.74 <= found / studies <= 0.92, (count, found / studies)


def test_no_number_of_seeds_detects_what_the_images_hide() -> None:
    hidden = (0.1, 0.1), (0.0, 0.0), (5, 5), 0.2 + 1.0, 100
    assert DifferenceTest(1.0, *hidden).needed_seeds(0.04) is None
    assert DifferenceTest(0.0, *hidden).needed_seeds(0.04) is None
    assert DifferenceTest(5.0, *hidden).needed_seeds(0.04) is not None


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


MEANS = [key for name, entry in METRICS.items() if entry.is_mean and entry.of_captions for key in keys_of(name, entry)]
"""Metrics of captions that are means over queries, without split."""


def make_ranks(captions: list[int], seed: int) -> Ranks:
    """Small ranks, so that many queries are answered among the first five."""
    drawn = np.random.default_rng(seed).integers(1, 14, (2, sum(captions)), dtype=np.int32)
    owner = np.repeat(np.arange(len(captions), dtype=np.int32), captions)
    return Ranks(drawn[0], drawn[1], owner, "ab" * 32, "test")


@pytest.mark.parametrize("metric", MEANS)
@settings(max_examples=25)
@given(captions=st.lists(st.integers(1, 8), min_size=1, max_size=30), seed=st.integers(0, 999))
def test_the_mean_over_the_images_is_the_metric(metric: str, captions: list[int], seed: int) -> None:
    ranks = make_ranks(captions, seed)
    i2t, t2i, owner = (torch.from_numpy(one).long() for one in (ranks.i2t, ranks.t2i, ranks.image_of_caption))
    reported = metrics_of_ranks(i2t, t2i, owner)
    reported["r1_r5_sum"] = sum(reported[f"{way}_{name}"] for way in ("i2t", "t2i") for name in ("r1", "r5"))
    values = image_values(ranks, metric)
    assert values.shape == (len(captions),)
    assert values.mean() == pytest.approx(reported[metric], abs=1e-9)


def test_an_image_adds_what_its_own_queries_reach() -> None:
    ranks = Ranks(
        np.array([1, 9, 6, 30], dtype=np.int32),
        np.array([1, 3, 40, 8], dtype=np.int32),
        np.array([0, 0, 1, 1], dtype=np.int32),
        "ab" * 32,
        "test",
    )
    assert image_values(ranks, "rsum").tolist() == [300 + 50 + 100 + 100, 100 + 50]
    assert image_values(ranks, "i2t_r1").tolist() == [100, 0]
    assert image_values(ranks, "t2i_r5").tolist() == [100, 0]


def test_an_image_with_more_captions_weighs_more_where_captions_query() -> None:
    """The spread of a ratio: two images of one caption, one of four, all answers of one image right."""
    ranks = Ranks(
        np.ones(6, dtype=np.int32),
        np.array([1, 1, 1, 1, 9, 9], dtype=np.int32),
        np.array([0, 0, 0, 0, 1, 2], dtype=np.int32),
        "ab" * 32,
        "test",
    )
    mean = 100 * 4 / 6
    expected = [mean + (400 - 4 * mean) / 2, mean + (0 - mean) / 2, mean + (0 - mean) / 2]
    assert image_values(ranks, "t2i_r1") == pytest.approx(expected)


def test_a_median_is_no_mean_over_queries() -> None:
    with pytest.raises(KeyError):
        image_values(make_ranks([5, 5], 0), "i2t_medr")
