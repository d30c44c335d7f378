"""Linear maps and batch norms of one model or of K stacked models, and the precision in which they compute.

Parameters of shape (K, ...) map the inputs of each model by its own parameters; inputs with a leading dimension of 1
are shared by all models.

The precision is float32, or mixed with bfloat16. In mixed precision, matrix products and convolutions run in bf16;
weights, optimiser, GRUs, lengths of vectors, similarities and losses stay float32. GRUs are excluded, because autocast
would run cuDNN's GRU in float16, which would need scaled gradients.
"""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from trainables.config import Precision


def linear(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """Map inputs (..., D) to (..., E); with stacked parameters (K, ..., D) or (1, ..., D) to (K, ..., E)."""
    if layer.weight.dim() == 2:
        mapped: Tensor = layer(inputs)
        return mapped
    rows = inputs.flatten(1, -2).expand(len(layer.weight), -1, -1)
    if len(inputs) == 1 or (inputs.dim() == 3 and not inputs.requires_grad):
        # With W x^T instead of x W^T the gradient of W has the layout of W and is not copied; a copy takes as long as
        # the product (64 heads of 1,024 x 256 on batches of 128: backward 137 ms with the copy, 67 ms without). For
        # activations, and for sets of regions, the layout of the output matters more.
        mapped = torch.baddbmm(layer.bias[..., None], layer.weight, rows.mT).mT
    else:
        mapped = affine(rows, layer.weight, layer.bias)
    return mapped.unflatten(1, inputs.shape[1:-1])


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return W x + b of inputs (K, N, D), with weights (K, E, D) and biases (K, E), shape (K, N, E)."""
    return torch.baddbmm(bias[:, None], inputs, weight.mT)


def batch_norm(layer: nn.BatchNorm1d, inputs: Tensor) -> Tensor:
    """Normalise inputs (N, D), or (K, N, D) with stacked parameters, by statistics over the N inputs of each model."""
    if layer.weight.dim() == 1:
        normed: Tensor = layer(inputs)
        return normed
    models, rows, _ = inputs.shape
    mean, variance = layer.running_mean, layer.running_var
    assert mean is not None and variance is not None and layer.num_batches_tracked is not None
    if layer.training:
        layer.num_batches_tracked.add_(1)
    # The features of all models are laid side by side, so that each feature has its own statistics.
    normed = nn.functional.batch_norm(
        inputs.transpose(0, 1).reshape(rows, -1),
        mean.view(-1),
        variance.view(-1),
        layer.weight.view(-1),
        layer.bias.view(-1),
        layer.training,
        layer.momentum or 0.0,
        layer.eps,
    )
    return normed.view(rows, models, -1).transpose(0, 1)


def computing(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Return the context in which a model computes its vectors on a device; ``auto`` is bf16 on a GPU that has it."""
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    is_low = precision == "bf16" or (precision == "auto" and has_bf16)
    return torch.autocast(device.type, torch.bfloat16, enabled=is_low)


def computing_in_full(device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which autocast is off, for computations that are always float32."""
    return torch.autocast(device.type, enabled=False)


def in_full(values: Tensor) -> Tensor:
    """Return values as float32; values of higher precision are returned as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
