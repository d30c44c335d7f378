"""The value of each image: their mean is the metric that evaluation reports, whatever the numbers of captions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.experiment.values import METRICS
from orchestrator.results.per_image import image_values
from trainables.metrics import metrics_of_ranks
from trainables.ranks import Ranks


def make_ranks(captions: list[int], seed: int) -> Ranks:
    """Small ranks, so that many queries are answered among the first five."""
    drawn = np.random.default_rng(seed).integers(1, 14, (2, sum(captions)), dtype=np.int32)
    owner = np.repeat(np.arange(len(captions), dtype=np.int32), captions)
    return Ranks(drawn[0], drawn[1], owner, "ab" * 32, "test")


@pytest.mark.parametrize("metric", [name.removeprefix("val/") for name in METRICS])
@settings(max_examples=25, deadline=None)
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
