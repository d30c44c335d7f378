import math

import pytest
import torch
from torch import nn

from trainables.models.vsrn import GraphBlock, RegionReasoning


def open_gate(block: GraphBlock) -> GraphBlock:
    """Give the batch norm weight and bias of a trained block: at initialisation it shuts the block off."""
    nn.init.uniform_(block.norm.weight, 0.5, 1.5)
    nn.init.uniform_(block.norm.bias, -1, 1)
    return block


@pytest.mark.parametrize("images, regions, size", [(2, 1, 3), (3, 16, 8), (5, 36, 4)])
def test_graph_block_is_the_identity_until_it_is_trained(images: int, regions: int, size: int) -> None:
    values = torch.randn(images, regions, size)
    assert torch.equal(GraphBlock(size)(values), values)


def test_graph_block_is_the_formula() -> None:
    torch.manual_seed(0)
    images, regions, size = 3, 4, 5
    block = open_gate(GraphBlock(size)).double()
    values = torch.randn(images, regions, size, dtype=torch.float64)
    gathered = torch.zeros(images, regions, size, dtype=torch.float64)
    for image in range(images):
        for i in range(regions):
            for j in range(regions):
                affinity = block.theta(values[image, i]) @ block.phi(values[image, j])
                gathered[image, i] += affinity / regions * block.g(values[image, j])
    mixed = block.w(gathered)
    rows = mixed.reshape(-1, size)
    standard = (mixed - rows.mean(0)) / (rows.var(0, unbiased=False) + block.norm.eps).sqrt()
    expected = values + standard * block.norm.weight + block.norm.bias
    torch.testing.assert_close(block(values), expected)


def test_only_the_batch_norm_moves_in_the_first_step() -> None:
    block = GraphBlock(4)
    block(torch.randn(3, 5, 4)).square().sum().backward()
    moved = {name for name, parameter in block.named_parameters() if parameter.grad.abs().max() > 0}
    assert moved == {"norm.weight", "norm.bias"}


def normalised(regions: torch.Tensor, norm: str) -> torch.Tensor:
    """Divide each number of regions (images, regions, features) by its length along an axis, one by one."""
    lengths = torch.empty_like(regions)
    for image, region, feature in torch.cartesian_prod(*map(torch.arange, regions.shape)):
        along = regions[image, region] if norm == "features" else regions[image, :, feature]
        lengths[image, region, feature] = math.sqrt(sum(value * value for value in along.tolist()))
    return regions / lengths * (math.sqrt(regions.shape[-1]) if norm == "features" else 1)


@pytest.mark.parametrize("norm", ["features", "published"])
@pytest.mark.parametrize("before", [True, False], ids=["before and after", "after"])
def test_regions_are_normalised_where_and_over_the_axis_that_was_asked_for(norm: str, before: bool) -> None:
    torch.manual_seed(0)
    encoder = RegionReasoning(6, 4, region_norm=norm, norm_before_reasoning=before).eval()
    # Untrained blocks are the identity, before and after which normalising is the same.
    for block in encoder.blocks:
        open_gate(block)
    features = torch.randn(3, 5, 6)
    regions = encoder.projection(features)
    regions = normalised(encoder.blocks(normalised(regions, norm) if before else regions), norm)
    state = torch.zeros(1, 3, 4)
    for region in range(5):
        _, state = encoder.gru(regions[:, region : region + 1], state)
    expected = encoder.norm(state[0])
    torch.testing.assert_close(encoder(features), expected / expected.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("norm", ["features", "published"])
def test_regions_of_zeros_do_not_drown_the_gradient_of_the_others(norm: str) -> None:
    torch.manual_seed(0)
    encoder = RegionReasoning(6, 4, region_norm=norm)
    features = torch.randn(3, 5, 6)
    features[0, 3:] = 0
    encoder(features)[:, 0].sum().backward()
    largest = [float(parameter.grad.abs().max()) for parameter in encoder.parameters()]
    assert 0 < max(largest) < 1e3
