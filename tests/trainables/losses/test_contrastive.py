"""NT-Xent, decoupled and sigmoid: values by hand, limits and refusals."""

import math

import numpy as np
import pytest
import torch

from tests.trainables.losses.batches import one_to_one, random_cosines
from trainables.losses.contrastive import Decoupled, NTXent, Sigmoid


def test_a_huge_right_score_costs_nothing() -> None:
    assert NTXent(0.01)(torch.eye(4) * 1e4, one_to_one(4)) == 0


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


@pytest.mark.parametrize(("bias", "score"), [(-1e4, 1.0), (1e4, -1.0)])
def test_a_bias_far_out_does_not_overflow(bias: float, score: float) -> None:
    value = Sigmoid(temperature=0.01, bias=bias)(torch.full((3, 3), score), one_to_one(3))
    assert math.isfinite(value.item())
    assert value > 1e3
