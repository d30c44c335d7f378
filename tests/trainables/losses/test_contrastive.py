"""NT-Xent, decoupled and sigmoid: values by hand, limits and refusals."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import batches, five_each, one_to_one, random_cosines
from trainables.losses.contrastive import Decoupled, NTXent, Sigmoid


@settings(max_examples=30, deadline=None)
@given(batch=batches(), shift=st.floats(-5, 5))
def test_a_constant_added_to_all_scores_changes_nothing(batch: tuple[Tensor, Tensor, Tensor], shift: float) -> None:
    similarity, positives, ignore = batch
    torch.testing.assert_close(
        NTXent(0.1)(similarity + shift, positives, ignore), NTXent(0.1)(similarity, positives, ignore)
    )


@settings(max_examples=30, deadline=None)
@given(batch=batches(), temperature=st.floats(0.01, 2))
def test_temperature_divides_the_scores(batch: tuple[Tensor, Tensor, Tensor], temperature: float) -> None:
    similarity, positives, ignore = batch
    torch.testing.assert_close(
        NTXent(temperature)(similarity, positives, ignore), NTXent(1.0)(similarity / temperature, positives, ignore)
    )


def test_a_huge_right_score_costs_nothing() -> None:
    assert NTXent(0.01)(torch.eye(4) * 1e4, one_to_one(4)) == 0


def test_an_ignored_pair_is_no_candidate() -> None:
    similarity = torch.tensor([[0.5, 0.9, 0.1], [0.2, 0.4, 0.3], [0.0, 0.1, 0.2]], dtype=torch.float64)
    ignore = torch.zeros(3, 3, dtype=torch.bool)
    ignore[0, 1] = True
    far = similarity.clone()
    far[0, 1] = -1e6
    value = NTXent()(similarity, one_to_one(3), ignore)
    assert value.item() == pytest.approx(NTXent()(far, one_to_one(3)).item(), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(batch=batches(), shift=st.floats(-5, 5))
def test_a_constant_added_to_all_scores_changes_nothing_in_dcl(
    batch: tuple[Tensor, Tensor, Tensor], shift: float
) -> None:
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


def test_pairs_are_counted_as_published() -> None:
    """Algorithm 1 of the paper in numpy: - log sigmoid(label (t s + b)), summed over pairs, over the batch size."""
    similarity = random_cosines(6, 6, seed=1)
    labels = 2 * np.eye(6) - 1
    logits = 7.0 * similarity.numpy() - 3.0
    expected = -np.log(1 / (1 + np.exp(-labels * logits))).sum() / 6
    assert Sigmoid(temperature=1 / 7, bias=-3.0)(similarity, one_to_one(6)).item() == pytest.approx(expected, rel=1e-12)


def test_no_pair_competes_with_another() -> None:
    similarity = random_cosines(4, 12, seed=2).requires_grad_()
    (gradient,) = torch.autograd.grad(Sigmoid()(similarity, five_each(4, 3)), similarity)
    changed = similarity.detach().clone()
    changed[0, 0] += 0.3
    (other,) = torch.autograd.grad(Sigmoid()(changed.requires_grad_(), five_each(4, 3)), changed)
    assert (gradient != other).sum() == 1


@pytest.mark.parametrize(("bias", "score"), [(-1e4, 1.0), (1e4, -1.0)])
def test_a_bias_far_out_does_not_overflow(bias: float, score: float) -> None:
    value = Sigmoid(temperature=0.01, bias=bias)(torch.full((3, 3), score), one_to_one(3))
    assert math.isfinite(value.item())
    assert value > 1e3
