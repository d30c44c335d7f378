"""What the benchmark measures against computes the same thing."""

import pytest
import torch

from tests.benchmarks import naive
from trainables.losses import build_loss
from trainables.metrics import embedding_metrics


@pytest.mark.parametrize(("name", "version"), [(n, v) for n in naive.LOSSES if n != "warp" for v in naive.LOSSES[n]])
def test_naive_losses_agree(name: str, version: str) -> None:
    positives = torch.eye(4, dtype=torch.bool).repeat_interleave(3, 1)
    similarity = torch.rand(4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) / 5
    torch.testing.assert_close(
        naive.LOSSES[name][version](similarity, positives), build_loss(name)(similarity, positives)
    )


def test_naive_warp_agrees_on_average() -> None:
    positives = torch.eye(300, dtype=torch.bool)
    similarity = torch.rand(300, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    torch.manual_seed(0)
    expected = build_loss("warp")(similarity, positives).item()
    assert naive.warp(similarity, positives).item() == pytest.approx(expected, rel=0.1)


def test_naive_metrics_agree() -> None:
    generator = torch.Generator().manual_seed(1)
    images, captions = torch.randn(8, 16, generator=generator), torch.randn(24, 16, generator=generator)
    owner = torch.arange(8).repeat_interleave(3)
    expected = embedding_metrics(images, captions, owner)
    assert naive.metrics(images, captions, owner) == pytest.approx(
        {k: expected[k] for k in naive.metrics(images, captions, owner)}
    )
