"""Retrieval metrics against a sort of each query's candidates, and their promises about ties, shifts and blocks."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import Drawn, batches, one_to_one
from trainables.metrics import class_metrics, embedding_metrics, metrics_of_ranks, rank_classmates, retrieval_metrics
from trainables.positive_ranks import BlockScores, rank_positives
from trainables.ranks import chance_rsum

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = {
    f"{direction}_{name}"
    for direction in ("i2t", "t2i")
    for name in ("r1", "r5", "r10", "medr", "meanr", "map5", "map10", "p5", "p10", "average_recall")
} | {"rsum", "r1_r5_sum"}


def sorted_metrics(similarity: Tensor, positives: Tensor) -> dict[str, float]:
    """Sort each query's candidates, negatives first among equals, and read the metrics off the order."""
    result: dict[str, float] = {}
    for direction, scores, own in (("i2t", similarity, positives), ("t2i", similarity.T, positives.T)):
        ranks: list[int] = []
        precisions: dict[int, list[float]] = {5: [], 10: []}
        shares: dict[int, list[float]] = {5: [], 10: []}
        for row, mine in zip(scores.tolist(), own.tolist(), strict=True):
            order = sorted(range(len(row)), key=lambda j: (-row[j], mine[j]))
            places = [place for place, j in enumerate(order, start=1) if mine[j]]
            ranks.append(places[0])
            for depth, of_queries in precisions.items():
                hits = [place for place in places if place <= depth]
                shares[depth].append(100 * sum(mine[j] for j in order[:depth]) / depth)
                of_queries.append(sum(n / place for n, place in enumerate(hits, start=1)) / len(hits) if hits else 0.0)
        recalls = {f"r{k}": 100 * sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10)}
        ranks.sort()
        middle = (ranks[(len(ranks) - 1) // 2] + ranks[len(ranks) // 2]) / 2
        values = {
            **recalls,
            "medr": float(math.floor(middle)),
            "meanr": sum(ranks) / len(ranks),
            **{f"map{depth}": sum(values) / len(values) for depth, values in precisions.items()},
            **{f"p{depth}": sum(values) / len(values) for depth, values in shares.items()},
            "average_recall": sum(recalls.values()) / 3,
        }
        result |= {f"{direction}_{name}": value for name, value in values.items()}
    result["rsum"] = sum(result[f"{d}_r{k}"] for d in ("i2t", "t2i") for k in (1, 5, 10))
    result["r1_r5_sum"] = result["i2t_r1"] + result["i2t_r5"] + result["t2i_r1"] + result["t2i_r5"]
    return result


Embedded = tuple[Tensor, Tensor, Tensor]
"""Vectors of images and of captions, and the image of each caption."""


def scattered(images: int, size: int, noise: float, scale: float = 1.0, captions: int | Tensor = 3) -> Embedded:
    """Return vectors of images, and of captions near their image, all of about a length."""
    generator = torch.Generator().manual_seed(0)
    vectors = scale * torch.nn.functional.normalize(torch.randn(images, size, generator=generator), dim=-1)
    owner = torch.arange(images).repeat_interleave(captions) if isinstance(captions, int) else captions
    return vectors, vectors[owner] + scale * noise * torch.randn(len(owner), size, generator=generator), owner


def nearly_tied(step: float) -> Embedded:
    """Return images that differ by less than float32 tells of their products."""
    base, nudge = scattered(20, 64, 0.0)[0][:1], torch.randn(20, 64, generator=torch.Generator().manual_seed(1))
    images, owner = base + step * nudge, torch.arange(20).repeat_interleave(3)
    return images, images[owner] + step * nudge[owner.flip(0)], owner


def twice_the_same() -> Embedded:
    images, captions, owner = scattered(24, 8, 0.5, captions=1)
    images[5], captions[3] = images[4], captions[2]
    return images, captions, owner


ANY_ORDER = torch.tensor([0, 3, 1, 1, 5, 2, 2, 2, 4, 0, 0, 0, 0, 0, 0, 3, 5, 1])
EMBEDDED = {
    "all apart": scattered(90, 32, 0.01),
    "in the middle": scattered(90, 32, 0.3),
    "at random": scattered(90, 32, 5.0),
    "long vectors": scattered(90, 32, 0.3, scale=1e4),
    "short vectors": scattered(90, 32, 0.3, scale=1e-6),
    "all the same": (torch.ones(9, 4), torch.ones(27, 4), torch.arange(9).repeat_interleave(3)),
    "zeros": (torch.zeros(9, 4), torch.zeros(27, 4), torch.arange(9).repeat_interleave(3)),
    "nearly tied": nearly_tied(1e-6),
    "more nearly tied": nearly_tied(3e-8),
    "two of each the same": twice_the_same(),
    "captions in any order and number": scattered(6, 8, 0.5, captions=ANY_ORDER),
}


MIDDLE, NEAR, OWNER = EMBEDDED["in the middle"]
EMBEDDED["half precision"] = MIDDLE.half(), NEAR.bfloat16(), OWNER


@pytest.mark.parametrize("name", EMBEDDED)
def test_blocks_of_float32_count_as_the_full_matrix_does_in_float64(name: str) -> None:
    """On scores that tie, that nearly tie, and on random ones."""
    images, captions, owner = EMBEDDED[name]
    full = images.double() @ captions.double().T
    exact = embedding_metrics(images.double(), captions.double(), owner)
    assert exact == pytest.approx(retrieval_metrics(full, owner == torch.arange(len(images))[:, None]), abs=1e-9)
    for chunk in (7, 64, 1024) if len(images) > 24 else (1, 3, 16, 1024):
        assert embedding_metrics(images, captions, owner, chunk=chunk) == exact


def test_the_cases_reach_both_ways_of_deciding() -> None:
    """Scores that all lie apart are decided in float32; those of equal vectors are all computed again."""
    assert embedding_metrics(*EMBEDDED["all apart"])["rsum"] == 600.0
    assert embedding_metrics(*EMBEDDED["all the same"])["rsum"] == 100.0, "not above chance, which is 302"
    assert 0 < embedding_metrics(*EMBEDDED["in the middle"])["rsum"] < 600.0
    point, owner = scattered(1, 64, 0.0)[0], torch.arange(30).repeat_interleave(5)
    for chunk in (7, 64, 1024):
        assert embedding_metrics(point.expand(30, -1), point.expand(150, -1), owner, chunk=chunk)["rsum"] == 0


@settings(max_examples=60, deadline=None)
@given(batch=batches(), dtype=st.sampled_from([torch.float64, torch.bfloat16]))
def test_metrics_are_those_of_the_sorted_candidates(batch: Drawn, dtype: torch.dtype) -> None:
    similarity, positives = batch[0].to(dtype), batch[1]
    metrics = retrieval_metrics(similarity, positives)
    assert metrics == pytest.approx(sorted_metrics(similarity, positives), abs=1e-9)
    assert metrics.keys() == NAMES


def counted_ranks(images: Tensor, captions: Tensor, owner: Tensor) -> tuple[list[int], list[int]]:
    """Count the negatives at or above each positive pair, one pair at a time."""
    scores = (images.double() @ captions.double().T).tolist()
    image_of = owner.tolist()
    i2t = [1 + sum(s >= scores[i][c] for s, o in zip(scores[i], image_of, strict=True) if o != i)
           for c, i in enumerate(image_of)]  # fmt: skip
    t2i = [1 + sum(row[c] >= scores[i][c] for j, row in enumerate(scores) if j != i) for c, i in enumerate(image_of)]
    return i2t, t2i


@pytest.mark.parametrize(
    "captions_of_images", [(1,) * 9, (5,) * 12, (7, 1, 3, 2, 9, 1)], ids=["one", "five", "unequal numbers"]
)
@pytest.mark.parametrize("chunk", [1, 4, 1024])
def test_the_rank_of_each_positive_holds_all_metrics(captions_of_images: tuple[int, ...], chunk: int) -> None:
    generator = torch.Generator().manual_seed(len(captions_of_images))
    owner = torch.arange(len(captions_of_images)).repeat_interleave(torch.tensor(captions_of_images))
    # Small integers, so that many scores are equal.
    images = torch.randint(-2, 3, (len(captions_of_images), 6), generator=generator).float()
    captions = torch.randint(-2, 3, (len(owner), 6), generator=generator).float()
    i2t, t2i = rank_positives(images, captions, owner, chunk=chunk)
    assert (i2t.tolist(), t2i.tolist()) == counted_ranks(images, captions, owner)
    assert metrics_of_ranks(i2t, t2i, owner) == embedding_metrics(images, captions, owner)


def test_embeddings_as_they_leave_a_model_in_training_are_taken() -> None:
    images, captions = torch.eye(20), torch.eye(20)
    wanted = embedding_metrics(images, captions, torch.arange(20))
    assert embedding_metrics(images.requires_grad_(), captions.requires_grad_(), torch.arange(20)) == wanted


def test_folds_are_averaged() -> None:
    images, captions, owner = scattered(20, 4, 0.5, captions=5)
    folds = [embedding_metrics(images[i : i + 4], captions[5 * i : 5 * i + 20], owner[:20]) for i in range(0, 20, 4)]
    expected = {name: sum(fold[name] for fold in folds) / 5 for name in NAMES}
    assert embedding_metrics(images, captions, owner, folds=5) == pytest.approx(expected)
    assert expected["rsum"] > embedding_metrics(images, captions, owner)["rsum"]


THREE = torch.eye(3)
FOUR = scattered(4, 8, 0.5, captions=2)
ONE = one_to_one(3)
NONE = torch.zeros(3, 3, dtype=torch.bool)
OWNERS = torch.arange(3)
IN_FOLDS, IN_CHUNKS = partial(embedding_metrics, folds=3), partial(embedding_metrics, chunk=0)
REFUSED: dict[str, tuple[Callable[..., object], tuple[Any, ...], str]] = {
    "NaN": (retrieval_metrics, (THREE.clone().fill_diagonal_(torch.nan), ONE), "similarity must be finite, got 3 of 9"),
    "infinite": (retrieval_metrics, (THREE / 0, ONE), "similarity must be finite, got 9 of 9"),
    "stacked": (retrieval_metrics, (THREE[None], ONE), r"must have the shape .* got \(1, 3, 3\)"),
    "shapes differ": (retrieval_metrics, (THREE, one_to_one(2)), r"and torch.bool of shape \(2, 2\)"),
    "positives of numbers": (retrieval_metrics, (THREE, THREE), "torch.float32"),
    "no positive": (retrieval_metrics, (THREE, NONE), r"every image .* got none for \[0, 1, 2\]"),
    "no queries": (retrieval_metrics, (THREE[:0], NONE[:0]), r"at least one image .* got \(0, 3\)"),
    "NaN image": (embedding_metrics, (THREE / 0 * 0, THREE, OWNERS), "images must be finite"),
    "NaN caption": (embedding_metrics, (THREE, THREE.log() * 0, OWNERS), "captions must be finite"),
    "sizes differ": (embedding_metrics, (THREE, torch.ones(3, 4), OWNERS), r"shapes .*, got \(3, 3\), \(3, 4\)"),
    "owners of numbers": (embedding_metrics, (THREE, THREE, torch.ones(3)), "integers .* got torch.float32"),
    "too few owners": (embedding_metrics, (THREE, THREE, OWNERS[:2]), r"must be integers of shape \(C,\)"),
    "owner out of range": (embedding_metrics, (THREE, THREE, OWNERS + 1), r"must be in \[0, 3\), got 1 to 3"),
    "image without caption": (embedding_metrics, (THREE, THREE, OWNERS // 2 * 2), r"every image .* got none for \[1\]"),
    "nothing": (embedding_metrics, (THREE[:0], THREE[:0], OWNERS[:0]), "at least one image and one caption"),
    "folds": (IN_FOLDS, FOUR, "folds must divide the number of images, 4, got 3"),
    "chunk": (IN_CHUNKS, FOUR, "chunk must be at least 1, got 0"),
    "a class of one image": (rank_classmates, (BlockScores(THREE, THREE), OWNERS // 2), "every class needs two images"),
}


@pytest.mark.parametrize(("call", "arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_metrics_is_refused(call: Callable[..., object], arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(*arguments)


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
    assert not any(name.endswith(("map5", "map10")) for name in found)


def test_chunks_change_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.nn.functional.normalize(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    labels = torch.arange(10).repeat(5)
    whole = rank_classmates(BlockScores(vectors, vectors), labels)
    monkeypatch.setattr("trainables.metrics.QUERIES_AT_A_TIME", 7)
    assert rank_classmates(BlockScores(vectors, vectors), labels).tolist() == whole.tolist()


def test_a_collapsed_model_finds_no_classmate() -> None:
    """Equal vectors tie, although their scores are rounded differently."""
    for point in scattered(5, 64, 0.0)[0]:
        scores = BlockScores(point.expand(150, -1), point.expand(150, -1))
        assert class_metrics(rank_classmates(scores, torch.arange(30).repeat_interleave(5)))["rsum"] == 0


def test_chance_is_that_of_random_vectors() -> None:
    labels = np.arange(12).repeat(4)
    generator = torch.Generator().manual_seed(1)
    found, eye = [], torch.eye(48).double()
    for _ in range(300):
        order = torch.randn(48, 48, generator=generator).double()
        found.append(class_metrics(rank_classmates(BlockScores(order, eye), torch.from_numpy(labels)))["rsum"])
    assert np.mean(found) == pytest.approx(chance_rsum(np.arange(48), labels), abs=3.0)
