"""The decoupled loss beside NT-Xent, from which it differs by the positive in the denominator."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import batches, one_to_one, random_cosines
from trainables.losses.contrastive import Decoupled, NTXent


@settings(max_examples=30, deadline=None)
@given(batch=batches(), shift=st.floats(-5, 5))
def test_a_constant_added_to_all_scores_changes_nothing(batch: tuple[Tensor, Tensor, Tensor], shift: float) -> None:
    similarity, positives, ignore = batch
    torch.testing.assert_close(
        Decoupled(0.1)(similarity + shift, positives, ignore), Decoupled(0.1)(similarity, positives, ignore)
    )


def test_the_rest_of_nt_xent_is_the_logarithm_of_the_probability_of_the_negatives() -> None:
    similarity = random_cosines(8, 8, seed=3)
    rest = sum(torch.log1p(-(scores / 0.3).softmax(-1).diagonal()).mean() for scores in (similarity, similarity.T))
    expected = NTXent(0.3)(similarity, one_to_one(8)) + rest / 2
    torch.testing.assert_close(Decoupled(0.3)(similarity, one_to_one(8)), expected, rtol=1e-10, atol=1e-10)


def test_a_solved_query_is_still_pulled() -> None:
    similarity = torch.eye(5, dtype=torch.float64).requires_grad_()
    gradients = [
        torch.autograd.grad(loss(similarity, one_to_one(5)), similarity)[0].diagonal()
        for loss in (Decoupled(0.05), NTXent(0.05))
    ]
    torch.testing.assert_close(gradients[0], torch.full((5,), -1 / 0.05 / 5, dtype=torch.float64))
    assert (gradients[1].abs() < 1e-6).all()


def test_a_query_without_negatives_costs_nothing() -> None:
    similarity = random_cosines(2, 3, seed=4).requires_grad_()
    value = Decoupled()(similarity, torch.ones(2, 3, dtype=torch.bool))
    assert value == 0
    assert not torch.autograd.grad(value, similarity)[0].any()
