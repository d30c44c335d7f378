"""Counts, ranks and metrics of pair similarities, block by block, beside those of the whole matrix."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainables.losses import NotANumberError
from trainables.metrics import metrics_in_folds, retrieval_metrics
from trainables.models.pair_model import PairScores
from trainables.positive_ranks import rank_by_scores, rank_similarity
from trainables.representations import PackedSets, Sets, converted, from_tensors, is_finite, to_tensors

OWNERS = torch.arange(24) // 2


def packed(count: int, seed: int) -> PackedSets:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (count,), generator=generator)
    return PackedSets(torch.randn(int(lengths.sum()), 3, generator=generator), lengths)


def largest_product(images: PackedSets, captions: PackedSets) -> Tensor:
    """A similarity that is no product of vectors: the largest product of a member of each."""
    first, second = images.padded(), captions.padded()
    products = torch.einsum("iae,cbe->icab", first.vectors, second.vectors)
    inside = first.inside()[:, None, :, None] & second.inside()[None, :, None, :]
    return products.masked_fill(~inside, -torch.inf).amax((-1, -2))


def in_tenths(images: PackedSets, captions: PackedSets) -> Tensor:
    """The same, rounded, so that many pairs tie."""
    return (largest_product(images, captions) / 2).round() / 10


def jittered(images: PackedSets, captions: PackedSets) -> Tensor:
    """The same, each block rounded in another way."""
    scores = in_tenths(images, captions)
    return scores + 3e-8 * torch.linspace(-1, 1, scores.numel()).view_as(scores)


def whole(compare: Callable[[PackedSets, PackedSets], Tensor]) -> Tensor:
    return compare(packed(12, 0), packed(24, 1))


@pytest.mark.parametrize("compare", [largest_product, in_tenths])
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_metrics_and_ranks_are_those_of_the_whole_matrix(
    compare: Callable[[PackedSets, PackedSets], Tensor], chunk: int
) -> None:
    images, captions = packed(12, 0), packed(24, 1)

    def scores(some: PackedSets, others: PackedSets) -> PairScores:
        return PairScores(compare, some, others)

    positives = torch.arange(12)[:, None] == OWNERS
    found = metrics_in_folds(scores, images, captions, OWNERS, chunk=chunk)
    assert found == pytest.approx(retrieval_metrics(compare(images, captions), positives))
    ranks = rank_by_scores(scores(images, captions), OWNERS, chunk=chunk)
    for got, wanted in zip(ranks, rank_similarity(compare(images, captions), OWNERS), strict=True):
        assert torch.equal(got, wanted)
    matrix, halves = compare(images, captions), []
    for fold in range(2):
        rows, columns = torch.arange(12) // 6 == fold, fold == OWNERS // 6
        halves.append(retrieval_metrics(matrix[rows][:, columns], positives[rows][:, columns]))
    in_two = metrics_in_folds(scores, images, captions, OWNERS, folds=2, chunk=chunk)
    assert in_two["rsum"] == pytest.approx((halves[0]["rsum"] + halves[1]["rsum"]) / 2)


@pytest.mark.parametrize("chunk", [3, 100])
def test_what_blocks_round_differently_stays_a_tie(chunk: int) -> None:
    ranks = rank_by_scores(PairScores(jittered, packed(12, 0), packed(24, 1)), OWNERS, chunk=chunk)
    wanted = rank_similarity(whole(in_tenths), OWNERS)
    assert len(whole(in_tenths).unique()) < 20, "there must be ties"
    for got, other in zip(ranks, wanted, strict=True):
        assert torch.equal(got, other)


def test_some_scores_are_those_of_the_matrix() -> None:
    scores = PairScores(largest_product, packed(12, 0), packed(24, 1))
    rows, columns = torch.tensor([3, 0, 11]), torch.tensor([7, 23])
    torch.testing.assert_close(scores.between(rows, columns), whole(largest_product)[rows][:, columns].double())
    torch.testing.assert_close(scores.own(OWNERS), whole(largest_product)[OWNERS, torch.arange(24)].double())
    mixed = OWNERS[torch.randperm(24, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(scores.own(mixed), whole(largest_product)[mixed, torch.arange(24)].double())


def test_a_similarity_that_is_no_number_is_a_divergence() -> None:
    def wrong(images: PackedSets, captions: PackedSets) -> Tensor:
        return largest_product(images, captions) * torch.nan

    with pytest.raises(NotANumberError, match="similarities must be finite"):
        PairScores(wrong, packed(3, 0), packed(3, 1))


def test_sets_are_packed_chosen_and_padded_without_change() -> None:
    vectors, lengths = torch.randn(3, 4, 2), torch.tensor([2, 4, 1])
    inside = torch.arange(4) < lengths[:, None]
    sets = Sets(vectors * inside[..., None], lengths)
    assert torch.equal(sets.inside(), inside)
    together = PackedSets.pack([sets, Sets(sets.vectors[:1, :2], lengths[:1])])
    assert len(together) == 4 and together.lengths.tolist() == [2, 4, 1, 2]
    torch.testing.assert_close(together[:3].padded().vectors, sets.vectors)
    mask = torch.tensor([False, True, False, True])
    for chosen in (together[torch.tensor([1, 3])], together[mask], together[1::2]):
        assert chosen.lengths.tolist() == [4, 2]
        torch.testing.assert_close(chosen.padded().vectors[0], sets.vectors[1])
        torch.testing.assert_close(chosen.padded().vectors[1, :2], sets.vectors[0, :2])
    for gallery in (together, vectors[:, 0]):
        again = from_tensors("images", to_tensors("images", converted(gallery, Tensor.double)))
        assert is_finite(again) and not is_finite(converted(gallery, lambda values: values / 0))
        assert type(again) is type(gallery) and len(again) == len(gallery)
