import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainables.losses.batches import STRUCTURES, batches
from trainables.losses.smooth_ap import SmoothAP


@settings(max_examples=40, deadline=None)
@given(batch=batches(), temperature=st.floats(1e-3, 10))
def test_lies_between_0_and_1(batch: tuple[Tensor, Tensor, Tensor], temperature: float) -> None:
    value = SmoothAP(temperature)(*batch).item()
    assert -1e-12 <= value <= 1


@pytest.mark.parametrize("structure", STRUCTURES)
def test_tends_to_one_minus_average_precision(structure: str) -> None:
    from sklearn.metrics import average_precision_score

    positives = STRUCTURES[structure]
    rng = np.random.default_rng(5)
    scores = rng.permutation(np.linspace(-1, 1, positives.numel())).reshape(positives.shape)
    directions = ((positives.numpy(), scores), (positives.numpy().T, scores.T))
    precisions = [
        np.mean([average_precision_score(truth, row) for truth, row in zip(truths, rows, strict=True)])
        for truths, rows in directions
    ]
    value = SmoothAP(1e-4)(torch.tensor(scores), positives).item()
    assert value == pytest.approx(1 - np.mean(precisions), abs=1e-9)


def test_counts_those_that_score_higher() -> None:
    """One query with its positive on top of one, then below it: AP is 1, then 1/2."""
    positives = torch.tensor([[True, False], [False, True]])
    right = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert SmoothAP(0.01)(right, positives).item() == pytest.approx(0, abs=1e-6)
    assert SmoothAP(0.01)(-right, positives).item() == pytest.approx(0.5, abs=1e-6)


def test_needs_no_more_than_the_rows_of_positives() -> None:
    """The full tensor of 64 x 320 x 320 differences in float64 alone would be 52 MB."""
    positives = torch.eye(64, dtype=torch.bool).repeat_interleave(5, 1)
    similarity = torch.rand(64, 320, dtype=torch.float64).requires_grad_()
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):  # type: ignore[func-returns-value]
        SmoothAP()(similarity, positives)
    assert max(saved) == 320 * 320
