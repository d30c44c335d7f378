"""Recall@K of images that retrieve images of their class, by a loop over queries and candidates."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.metrics import class_metrics, rank_classmates
from trainables.positive_ranks import BlockScores
from trainables.ranks import chance_rsum

PLACES = (1, 2, 4, 5, 8, 10)


def recall(vectors: list[list[float]], labels: list[int], places: int) -> float:
    """Sort the candidates of each query, ties with the wrong class first, and look at so many of them."""
    hits = 0
    for query, vector in enumerate(vectors):
        scored = []
        for other, candidate in enumerate(vectors):
            if other != query:
                score = sum(a * b for a, b in zip(vector, candidate, strict=True))
                scored.append((-score, labels[other] == labels[query]))
        hits += any(same for _, same in sorted(scored)[:places])
    return 100 * hits / len(vectors)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 5), each=st.integers(2, 4), levels=st.integers(2, 30))
def test_recall_is_that_of_a_loop(seed: int, classes: int, each: int, levels: int) -> None:
    # Whole coordinates, so that scores are exact in both computations and ties are likely.
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randint(-levels, levels, (classes * each, 3), generator=generator).double()
    labels = torch.arange(classes).repeat(each)
    found = class_metrics(rank_classmates(BlockScores(vectors, vectors), labels))
    for places in PLACES:
        expected = recall(vectors.tolist(), labels.tolist(), places)
        assert found[f"i2t_r{places}"] == pytest.approx(expected, abs=1e-9)
        assert found[f"t2i_r{places}"] == found[f"i2t_r{places}"]
    assert found["rsum"] == pytest.approx(2 * sum(found[f"i2t_r{k}"] for k in (1, 5, 10)))
    assert not any(name.endswith("map5") for name in found)


def test_chunks_change_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.nn.functional.normalize(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    labels = torch.arange(10).repeat(5)
    whole = rank_classmates(BlockScores(vectors, vectors), labels)
    monkeypatch.setattr("trainables.metrics.QUERIES_AT_A_TIME", 7)
    assert rank_classmates(BlockScores(vectors, vectors), labels).tolist() == whole.tolist()


def test_a_collapsed_model_finds_nothing() -> None:
    ranks = rank_classmates(BlockScores(torch.ones(40, 3), torch.ones(40, 3)), torch.arange(10).repeat(4))
    assert class_metrics(ranks)["rsum"] == 0.0


def test_a_class_of_one_image_has_nothing_to_find() -> None:
    with pytest.raises(ValueError, match="every class needs two images"):
        rank_classmates(BlockScores(torch.eye(3), torch.eye(3)), torch.tensor([0, 0, 1]))


def test_chance_is_that_of_random_vectors() -> None:
    labels = np.arange(12).repeat(4)
    generator = torch.Generator().manual_seed(1)
    found = []
    for _ in range(300):
        order = torch.randn(48, 48, generator=generator).double()
        found.append(
            class_metrics(rank_classmates(BlockScores(order, torch.eye(48).double()), torch.from_numpy(labels)))["rsum"]
        )
    assert np.mean(found) == pytest.approx(chance_rsum(np.arange(48), labels), abs=3.0)
