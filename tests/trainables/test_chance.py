"""The rsum of chance against counting and against what random scores reach."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.metrics import retrieval_metrics
from trainables.ranks import chance_rsum


def counted_recall(candidates: int, positives: int, places: int) -> float:
    """Count the sets of places that the positives can take, and those of them with one in the first places."""
    sets = list(combinations(range(candidates), positives))
    return 100 * sum(min(chosen) < places for chosen in sets) / len(sets)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_the_recalls_are_those_of_all_rankings(captions_of_images: list[int]) -> None:
    images, captions = len(captions_of_images), sum(captions_of_images)
    i2t = sum(counted_recall(captions, own, k) for own in captions_of_images for k in (1, 5, 10)) / images
    t2i = sum(counted_recall(images, 1, k) for k in (1, 5, 10))
    owners = np.arange(images).repeat(captions_of_images)
    assert chance_rsum(owners) == pytest.approx(i2t + t2i)


def test_random_scores_reach_it_on_average() -> None:
    owners = np.arange(30).repeat([*[5] * 25, *[6] * 3, *[1] * 2])
    positives = torch.from_numpy(np.arange(30)[:, None] == owners)
    generator = torch.Generator().manual_seed(0)
    reached = [
        retrieval_metrics(torch.rand(positives.shape, generator=generator), positives)["rsum"] for _ in range(400)
    ]
    assert np.mean(reached) == pytest.approx(chance_rsum(owners), abs=3 * np.std(reached) / 20)


@pytest.mark.parametrize(
    ("images", "expected"), [(1, 600), (10, 2 * (10 + 50 + 100)), (1000, 2 * (0.1 + 0.5 + 1))], ids=str
)
def test_with_one_caption_an_image_it_is_the_share_of_the_places(images: int, expected: float) -> None:
    assert chance_rsum(np.arange(images)) == pytest.approx(expected)
