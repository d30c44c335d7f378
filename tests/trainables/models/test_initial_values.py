"""What an untrained model starts from: the bounds and shapes of the published code, measured on many numbers."""

from collections.abc import Callable
from math import sqrt

import pytest
import torch
from torch import Tensor

from trainables.models.vsepp import VSEPP, TextEncoder
from trainables.models.vsrn import RegionReasoning

WEIGHTS: dict[str, tuple[Callable[[], Tensor], float]] = {
    "VSE++": (lambda: VSEPP(900, 7, 250, 5).image_projection.weight, sqrt(6) / sqrt(900 + 250)),
    "VSRN": (lambda: RegionReasoning(900, 250).projection.weight, sqrt(6) / sqrt(900 + 250)),
    "words": (lambda: TextEncoder(600, 300, 4).words.weight, 0.1),
}
"""What draws weights, of sizes that are all different, so that none is taken for another; and their bound."""


@pytest.mark.parametrize(("draw", "bound"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights_are_uniform_within_the_published_bound(draw: Callable[[], Tensor], bound: float) -> None:
    torch.manual_seed(0)
    values = draw().detach()
    # Of 180,000 uniform numbers the outermost are this close to the bound, and each tenth of the range holds a tenth.
    assert 0.999 * bound < float(values.max()) <= bound
    assert -bound <= float(values.min()) < -0.999 * bound
    shares = torch.histc(values, bins=10, min=-bound, max=bound) / values.numel()
    torch.testing.assert_close(shares, torch.full((10,), 0.1), atol=0.005, rtol=0)


def test_biases_of_the_projections_start_at_zero() -> None:
    assert not VSEPP(9, 7, 5, 4).image_projection.bias.any()
    assert not RegionReasoning(9, 5).projection.bias.any()


def test_the_row_of_the_padding_is_drawn_like_any_other() -> None:
    torch.manual_seed(0)
    assert TextEncoder(6, 300, 4).words.weight[0].detach().abs().max() > 0.09
