"""What Multi-Similarity keeps of a batch, and how it weighs what it keeps."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import batches, one_to_one
from trainables.losses.directions import directions
from trainables.losses.pair_weights import MultiSimilarity


@settings(max_examples=50, deadline=None)
@given(batch=batches(), epsilon=st.sampled_from([0.0, 0.125, 0.5, 3.0]))
def test_a_query_keeps_a_positive_exactly_if_it_keeps_a_negative(
    batch: tuple[Tensor, Tensor, Tensor], epsilon: float
) -> None:
    # Sixteenths are exact, so that no rounding decides.
    rounded = (batch[0] * 16).round() / 16
    for direction in directions(rounded, *batch[1:]):
        kept = MultiSimilarity(epsilon=epsilon)._mined(direction)
        assert (kept[0].any(-1) == kept[1].any(-1)).all()


def test_a_pair_on_the_edge_is_left_out() -> None:
    similarity = torch.tensor([[0.5, 0.25], [0.0, 0.75]], dtype=torch.float64).requires_grad_()
    for epsilon, counts in ((0.25, 0), (0.2500001, 2), (0.5, 2), (0.5000001, 4)):
        value = MultiSimilarity(epsilon=epsilon)(similarity, one_to_one(2))
        assert (torch.autograd.grad(value, similarity)[0] != 0).sum() == counts


def test_sharpness_turns_the_sum_into_the_hardest() -> None:
    """With beta and alpha large, the term of a query is how far the hardest pairs are beyond the base."""
    similarity = torch.tensor([[0.2, 0.7, 0.6], [-0.3, 0.9, 0.1], [0.4, 0.5, 0.1]], dtype=torch.float64)
    value = MultiSimilarity(alpha=1e4, beta=1e4, base=0.5, epsilon=None)(similarity, one_to_one(3))
    i2t = (0.3 + 0.2) + 0.0 + 0.4
    t2i = 0.3 + 0.2 + (0.4 + 0.1)
    torch.testing.assert_close(value, torch.tensor((i2t + t2i) / 6, dtype=torch.float64), rtol=0, atol=1e-3)
