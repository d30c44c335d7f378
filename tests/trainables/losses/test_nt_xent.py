import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import batches, one_to_one
from trainables.losses.contrastive import NTXent


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
