"""R@K, R-Precision and mAP@R with judged positives, against a sort of each query's candidates and ``eccv-caption``."""

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.errors import DataError
from trainables.judged_ranks import JudgedRanks, judged_metrics, query_values
from trainables.judgements import JudgedQueries, Judgements, Pairs
from trainables.judgements.ranking import rank_direction
from trainables.positive_ranks import BlockScores


def pairs_of(mask: np.ndarray) -> Pairs:
    return np.stack(np.nonzero(mask)).astype(np.int32)


def drawn(images: int, each: int, seed: int, share: float = 0.1, known: bool = True) -> Judgements:
    """Return judgements of random pairs of a split in which each image has so many captions."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(images), each)
    annotated = owner == np.arange(images)[:, None]
    positives = annotated | (rng.random(annotated.shape) < share)
    judged = positives | (rng.random(annotated.shape) < 3 * share)
    queries = [
        JudgedQueries(
            np.arange(len(one), dtype=np.int32),
            owners.astype(np.int32),
            np.arange(one.shape[1], dtype=np.int32),
            pairs_of(one),
            pairs_of(own),
            pairs_of(seen) if known else None,
        )
        for one, own, seen, owners in (
            (positives, annotated, judged, np.arange(images)),
            (positives.T, annotated.T, judged.T, owner),
        )
    ]
    return Judgements("eccv", "test", "ab" * 32, (), queries[0], queries[1], 0, 0, "")


def embeddings(images: int, each: int, seed: int, size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(images, size, generator=generator), torch.randn(images * each, size, generator=generator)


def mask_of(pairs: Pairs, shape: tuple[int, int]) -> np.ndarray:
    mask = np.zeros(shape, dtype=bool)
    mask[pairs[0], pairs[1]] = True
    return mask


def sorted_metrics(scores: np.ndarray, direction: JudgedQueries) -> dict[str, float]:
    """Sort each query's candidates, wrong ones first among equals, and read the metrics off the order."""
    right, own = mask_of(direction.positives, scores.shape), mask_of(direction.annotated, scores.shape)
    assert direction.judged is not None
    seen = mask_of(direction.judged, scores.shape)
    values: dict[str, list[float]] = {}
    for row in range(len(scores)):
        columns = range(scores.shape[1])
        lists = {
            "": [right[row, j] for j in sorted(columns, key=lambda j: (-scores[row, j], right[row, j]))],
            "_condensed": [
                right[row, j] for j in sorted(columns, key=lambda j: (-scores[row, j], right[row, j])) if seen[row, j]
            ],
            "_annotated": [own[row, j] for j in sorted(columns, key=lambda j: (-scores[row, j], own[row, j]))],
        }
        for ending, hits in lists.items():
            for k in (1, 5, 10):
                values.setdefault(f"r{k}{ending}", []).append(100.0 * any(hits[:k]))
            count = int(sum(hits))
            if ending != "_annotated":
                precisions = [sum(hits[: r + 1]) / (r + 1) if hits[r] else 0.0 for r in range(count)]
                values.setdefault(f"r_precision{ending}", []).append(sum(hits[:count]) / count)
                values.setdefault(f"map_r{ending}", []).append(sum(precisions) / count)
    return {name: float(np.mean(each)) for name, each in values.items()}


@settings(max_examples=40, deadline=None)
@given(images=st.integers(2, 40), each=st.integers(1, 4), seed=st.integers(0, 999), whole=st.booleans())
def test_metrics_are_those_of_the_sorted_candidates(images: int, each: int, seed: int, whole: bool) -> None:
    judged = drawn(images, each, seed)
    left, right = embeddings(images, each, seed)
    if whole:
        # Whole numbers are often tied, and their sums are exact.
        left, right = left.round(), right.round()
    found = judged_metrics(judged.rank(BlockScores(left, right)))
    scores = (left.double() @ right.double().T).numpy()
    for way, matrix, direction in (("i2t", scores, judged.i2t), ("t2i", scores.T, judged.t2i)):
        for name, value in sorted_metrics(matrix, direction).items():
            assert found[f"{way}_{name}"] == pytest.approx(value, abs=1e-9), f"{way}_{name}"
    for ending in ("", "_annotated", "_condensed"):
        recalls = [found[f"{way}_r{k}{ending}"] for way in ("i2t", "t2i") for k in (1, 5, 10)]
        assert found[f"rsum{ending}"] == pytest.approx(sum(recalls))


@pytest.mark.parametrize(
    ("positions", "r_precision", "map_r"),
    [
        ([1], 1.0, 1.0),
        ([2], 0.0, 0.0),
        # eccv-caption 0.1.0's own numbers for these lists: 2 of 3, (1 + 2/3) / 3; 2 of 4, (1/2 + 2/3) / 4; 1 of 3, 1/9.
        ([1, 3, 9], 0.6666666666666667, 0.5555555555555556),
        ([2, 3, 7, 8], 0.5, 0.29166666666666663),
        ([3, 4, 5], 0.33333333333333337, 0.11111111111111112),
    ],
)
def test_precisions_of_lists_checked_by_hand(positions: list[int], r_precision: float, map_r: float) -> None:
    right = np.zeros((1, 10), dtype=bool)
    right[0, np.array(positions) - 1] = True
    own = np.zeros_like(right)
    own[0, positions[0] - 1] = True
    place = np.arange(10, dtype=np.int32)
    direction = JudgedQueries(place[:1], place[:1], place, pairs_of(right), pairs_of(own), None)
    judged = Judgements("eccv", "test", "", (), direction, direction, 0, 0, "")
    # Ten candidates whose scores fall; both directions have the same candidates here.
    scores = torch.linspace(1, 0.1, 10)[:, None]
    found = judged.rank(BlockScores(torch.ones(10, 1), scores)).i2t
    assert found.positions.tolist() == positions
    assert query_values(found, "r_precision")[0] == pytest.approx(r_precision, abs=1e-12)
    assert query_values(found, "map_r")[0] == pytest.approx(map_r, abs=1e-12)


@pytest.mark.skipif(importlib.util.find_spec("eccv_caption") is None, reason="eccv-caption is not installed")
@pytest.mark.parametrize("seed", [0, 1])
def test_random_embeddings_get_the_numbers_of_eccv_caption(seed: int) -> None:
    from eccv_caption._metrics import compute_eccv_metrics, compute_r_at_k  # type: ignore[import-not-found]

    judged = drawn(60, 5, seed, known=False)
    left, right = embeddings(60, 5, seed)
    found = judged_metrics(judged.rank(BlockScores(left, right)))
    scores = (left.double() @ right.double().T).numpy()
    for way, matrix, direction in (("i2t", scores, judged.i2t), ("t2i", scores.T, judged.t2i)):
        order = {row: np.argsort(-matrix[row]).tolist() for row in range(len(matrix))}
        truth: dict[int, list[int]] = {row: [] for row in order}
        for row, column in direction.positives.T.tolist():
            truth[row].append(column)
        theirs = compute_eccv_metrics(order, truth)
        assert found[f"{way}_map_r"] == pytest.approx(theirs["eccv_map_at_r"], abs=1e-9)
        assert found[f"{way}_r_precision"] == pytest.approx(theirs["eccv_rprecision"], abs=1e-9)
        for k in (1, 5, 10):
            assert found[f"{way}_r{k}"] == pytest.approx(100 * compute_r_at_k(order, truth, k), abs=1e-9)


class GivenScores:
    """Scores of images and captions as a matrix, with a tolerance of its own."""

    def __init__(self, matrix: torch.Tensor, tolerance: float) -> None:
        self.matrix, self.tolerance, self.device = matrix.double(), tolerance, torch.device("cpu")

    def between(self, images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
        return self.matrix[images][:, captions]


@pytest.mark.parametrize(
    ("tolerance", "below", "position"), [(0.01, 0.009, 2), (0.01, 0.011, 1), (0.0, 0.009, 1), (0.0, 0.0, 2)]
)
def test_a_wrong_candidate_within_the_tolerance_ranks_first(tolerance: float, below: float, position: int) -> None:
    """Two images with a caption each; the other caption, or image, scores a little less than the own one."""
    annotated = np.eye(2, dtype=bool)
    place = np.arange(2, dtype=np.int32)
    own, all_pairs = pairs_of(annotated), pairs_of(np.ones((2, 2), dtype=bool))
    direction = JudgedQueries(place, place, place, own, own, all_pairs)
    judged = Judgements("eccv", "test", "", (), direction, direction, 0, 0, "")
    scores: Any = GivenScores(torch.full((2, 2), 0.5 - below) + below * torch.eye(2), tolerance)
    found = judged.rank(scores)
    for way in (found.i2t, found.t2i):
        assert way.positions.tolist() == way.annotated.tolist() == way.condensed.tolist() == [position, position]


def test_what_is_judged_among_the_first_ten_is_counted() -> None:
    judged = drawn(20, 2, 3, share=0.2)
    left, right = embeddings(20, 2, 3)
    found = judged_metrics(judged.rank(BlockScores(left, right)))
    assert judged.i2t.judged is not None
    seen = mask_of(judged.i2t.judged, (20, 40))
    top = (left.double() @ right.double().T).topk(10).indices.numpy()
    assert found["i2t_top10_judged"] == pytest.approx(np.take_along_axis(seen, top, axis=1).mean())


def ranked(images: int, each: int, known: bool) -> JudgedRanks:
    return drawn(images, each, 0, known=known).rank(BlockScores(*embeddings(images, each, 0)))


def test_judgements_that_name_no_wrong_pairs_leave_out_what_needs_them() -> None:
    found = judged_metrics(ranked(10, 2, known=False))
    assert not [name for name in found if "condensed" in name or "judged" in name]
    assert {"rsum", "rsum_annotated", "map_r", "r_precision"} <= found.keys()


def test_a_journal_holds_the_ranks_of_judged_pairs() -> None:
    for known in (True, False):
        ranks = ranked(12, 3, known)
        again = JudgedRanks.from_text(ranks.to_text())
        assert judged_metrics(again) == judged_metrics(ranks)
        assert (again.name, again.digest) == (ranks.name, ranks.digest)
        assert again.t2i.owners.tolist() == ranks.t2i.owners.tolist()


@pytest.mark.parametrize("change", [{"packed": "!"}, {"lengths": [1, 2]}, {"lengths": None}])
def test_damaged_text_is_named(change: dict[str, object]) -> None:
    with pytest.raises(DataError, match="damaged"):
        JudgedRanks.from_text(ranked(5, 2, known=True).to_text() | change)


def test_what_fits_and_is_no_candidate_counts_among_those_to_find() -> None:
    """R is 3 of the first query, of which two are candidates and rank first and third; 1 of the second."""
    place = np.arange(2, dtype=np.int32)
    right = np.array([[1, 0, 1, 0], [0, 1, 0, 0]], dtype=bool)
    gallery, own = np.arange(4, dtype=np.int32), pairs_of(right & (np.arange(4) < 2))
    i2t = JudgedQueries(place, place, gallery, pairs_of(right), own, None, np.array([1, 0], dtype=np.int32))
    scores: Any = GivenScores(torch.tensor([[0.9, 0.8, 0.7, 0.1], [0.1, 0.9, 0.2, 0.3]]), 0.0)
    found = rank_direction(scores.between, i2t, scores)
    assert found.counts.tolist() == [3, 1] and found.positions.tolist() == [1, 3, 5, 1]
    assert query_values(found, "r_precision").tolist() == pytest.approx([2 / 3, 1.0])
    assert query_values(found, "map_r").tolist() == pytest.approx([(1 + 2 / 3) / 3, 1.0])
