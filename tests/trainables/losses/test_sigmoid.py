"""The sigmoid loss in numbers, and with its hyper-parameters learned."""

import math

import numpy as np
import pytest
import torch

from tests.trainables.losses.batches import five_each, one_to_one, random_cosines
from trainables.losses.contrastive import Sigmoid


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
