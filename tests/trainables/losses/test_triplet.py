"""SelHN between its two ends: the hardest negative of each query, and the mean over all of them."""

import pytest
import torch

from tests.trainables.losses.batches import one_to_one
from trainables.losses.triplet import Triplet, TripletHardest, TripletSelHN


def test_of_equally_hard_negatives_one_gets_the_gradient() -> None:
    similarity = torch.zeros(3, 3, requires_grad=True)
    TripletHardest()(similarity, one_to_one(3)).backward()
    assert similarity.grad is not None
    assert similarity.grad.diagonal().tolist() == [-2, -2, -2]
    assert similarity.grad[~one_to_one(3)].sum() == 6
    assert set(similarity.grad[~one_to_one(3)].tolist()) <= {0.0, 1.0, 2.0}


def test_each_query_decides_for_itself() -> None:
    """Query 0 is on its hardest negative, 0.0 away; query 1 is 0.5 above its own; at epsilon itself nothing is near."""
    similarity = torch.tensor([[0.5, 0.5, 0.0], [-0.5, 0.0, -0.5], [0.0, 0.25, 0.25]], dtype=torch.float64)
    i2t = (0.25 + 0.0) / 2 + 0.0 + (0.0 + 0.25) / 2
    t2i = 0.0 + 0.75 + 0.0
    value = TripletSelHN(margin=0.25, epsilon=0.1)(similarity, one_to_one(3))
    assert value.item() == pytest.approx(i2t + t2i, abs=1e-12)
    edge = torch.tensor([[0.5, 0.25, 0.0], [0.0, 0.5, 0.25], [0.25, 0.0, 0.5]], dtype=torch.float64)
    hardest, mean = TripletHardest(0.5)(edge, one_to_one(3)), Triplet(0.5)(edge, one_to_one(3)) / 2
    assert TripletSelHN(0.5, epsilon=0.25)(edge, one_to_one(3)) == hardest
    assert TripletSelHN(0.5, epsilon=0.2500001)(edge, one_to_one(3)) == mean != hardest


def test_a_collapsed_batch_pulls_and_pushes_every_pair() -> None:
    """Where all similarities are equal, the hardest negative is one of many; SelHN pushes all of them."""
    similarity = torch.full((4, 4), 0.9, dtype=torch.float64).requires_grad_()
    counts = [
        int((torch.autograd.grad(loss(similarity, one_to_one(4)), similarity)[0] > 0).sum())
        for loss in (TripletSelHN(), TripletHardest())
    ]
    assert counts[0] == 12 > counts[1]
