"""The loss against a double loop; `orchestrator check-plugin icr-pair-losses` asks all else."""

import pytest
import torch
from icr_pair_losses.hinge import PairHinge


def test_every_pair_is_pushed_over_its_half_of_the_margin() -> None:
    similarity = torch.rand(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    positives = torch.eye(3, dtype=torch.bool).repeat_interleave(2, 1)
    ignore = torch.zeros(3, 6, dtype=torch.bool)
    ignore[0, 5] = True
    expected = 0.0
    for image in range(3):
        for caption in range(6):
            score = float(similarity[image, caption])
            if positives[image, caption]:
                expected += max(0.0, 0.25 - score)
            elif not ignore[image, caption]:
                expected += max(0.0, 0.25 + score)
    assert float(PairHinge(margin=0.5)(similarity, positives, ignore)) == pytest.approx(expected / 6)


def test_a_margin_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="margin must be at least 0, got -1"):
        PairHinge(margin=-1.0)
