"""The circle loss in numbers that can be worked out by hand."""

import math

import pytest
import torch

from tests.trainables.losses.batches import one_to_one
from trainables.losses.pair_weights import Circle


def test_a_batch_to_read() -> None:
    """Each query: one positive at 0.5, one negative at 0.25; a_p = 0.75, a_n = 0.5."""
    similarity = torch.tensor([[0.5, 0.25], [0.25, 0.5]], dtype=torch.float64).requires_grad_()
    value = Circle(margin=0.25, scale=4.0)(similarity, one_to_one(2))
    exponent = 4 * 0.5 * (0.25 - 0.25) - 4 * 0.75 * (0.5 - 0.75)
    assert value.item() == pytest.approx(math.log1p(math.exp(exponent)), abs=1e-12)
    (gradient,) = torch.autograd.grad(value, similarity)
    share = 1 / (1 + math.exp(-exponent))
    # Two directions of half a mean over two queries each: a half in all.
    assert gradient[0, 0].item() == pytest.approx(-4 * 0.75 * share / 2, abs=1e-12)
    assert gradient[0, 1].item() == pytest.approx(4 * 0.5 * share / 2, abs=1e-12)


def test_pairs_beyond_their_optimum_have_no_weight() -> None:
    similarity = torch.tensor([[1.3, -0.9], [-0.9, 1.3]], dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(Circle(margin=0.25, scale=4.0)(similarity, one_to_one(2)), similarity)
    assert not gradient.any()
