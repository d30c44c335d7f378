import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import batches, one_to_one, random_cosines
from trainables.losses.triplet import Triplet, TripletHardest

MARGINS = st.floats(0, 2)


@settings(max_examples=30, deadline=None)
@given(batch=batches(), margin=MARGINS)
def test_no_loss_where_every_positive_wins_by_the_margin(batch: tuple[Tensor, Tensor, Tensor], margin: float) -> None:
    similarity, positives, ignore = batch
    separated = torch.where(positives, similarity + 2 + margin + 1e-9, similarity)
    assert Triplet(margin)(separated, positives, ignore) == 0
    assert TripletHardest(margin)(separated, positives, ignore) == 0


@settings(max_examples=30, deadline=None)
@given(batch=batches(), margin=MARGINS)
def test_the_hardest_is_one_of_all(batch: tuple[Tensor, Tensor, Tensor], margin: float) -> None:
    assert TripletHardest(margin)(*batch) <= Triplet(margin)(*batch) + 1e-12


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), margin=MARGINS)
def test_with_two_pairs_the_hardest_is_the_only_one(seed: int, margin: float) -> None:
    similarity = random_cosines(2, 2, seed=seed)
    torch.testing.assert_close(
        TripletHardest(margin)(similarity, one_to_one(2)), Triplet(margin)(similarity, one_to_one(2))
    )


@settings(max_examples=30, deadline=None)
@given(batch=batches(("pairs", "captions", "many_to_many")), shift=st.floats(-1, 1))
def test_only_differences_matter(batch: tuple[Tensor, Tensor, Tensor], shift: float) -> None:
    similarity, positives, ignore = batch
    for loss in (Triplet(), TripletHardest()):
        torch.testing.assert_close(
            loss(similarity + shift, positives, ignore), loss(similarity, positives, ignore), rtol=0, atol=1e-9
        )


def test_of_equally_hard_negatives_one_gets_the_gradient() -> None:
    similarity = torch.zeros(3, 3, requires_grad=True)
    TripletHardest()(similarity, one_to_one(3)).backward()
    assert similarity.grad is not None
    assert similarity.grad.diagonal().tolist() == [-2, -2, -2]
    assert similarity.grad[~one_to_one(3)].sum() == 6
    assert set(similarity.grad[~one_to_one(3)].tolist()) <= {0.0, 1.0, 2.0}
