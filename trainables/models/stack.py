"""K models of one shape as one stacked model: one forward and backward pass instead of K.

Parameters of the stacked model, and statistics of its batch norms, have the shape (K, ...). The parameters of the
single models become views of these tensors, so that an optimiser or a constraint that changes a single model also
changes the stacked model, and nothing is copied.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from trainables.models.retrieval_model import RetrievalModel


def stack_models(models: Sequence[RetrievalModel]) -> RetrievalModel:
    """Return the stacked model, on the device of the models; the models' parameters and statistics become its views.

    Args:
        models: At least one model, all of one class that ``can_stack``, with parameters of equal shapes. All other
            attributes except statistics and stacked settings are taken from the first model.
    """
    # The first model's parameters are not copied, because they are replaced.
    stacked = deepcopy(models[0], {id(parameter): parameter for parameter in models[0].parameters()})
    singles = [_changing(model) for model in models]
    for name, first in singles[0].items():
        values = torch.stack([single[name].detach() for single in singles])
        owner, _, attribute = name.rpartition(".")
        is_learned = isinstance(first, nn.Parameter)
        setattr(stacked.get_submodule(owner), attribute, nn.Parameter(values) if is_learned else values)
        for single, value in zip(singles, values.unbind(), strict=True):
            single[name].data = value
    for setting in stacked.stacked_settings:
        numbers = torch.tensor([getattr(model, setting) for model in models], device=values.device)
        setattr(stacked, setting, numbers[:, None, None])
    return stacked


def _changing(model: RetrievalModel) -> dict[str, Tensor]:
    """Return name -> tensor that training changes: parameters, and the statistics of batch norms."""
    found: dict[str, Tensor] = dict(model.named_parameters())
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm1d):
            found |= {f"{name}.{statistic}": values for statistic, values in module.named_buffers()}
    return found


def hand_out_gradients(stacked: RetrievalModel, models: Sequence[RetrievalModel]) -> None:
    """Set each single model's gradients to views of its part of the stacked model's gradients."""
    for name, parameter in stacked.named_parameters():
        gradients: tuple[Tensor | None, ...] = (None,) * len(models)
        if parameter.grad is not None:
            gradients = parameter.grad.unbind()
        for model, gradient in zip(models, gradients, strict=True):
            model.get_parameter(name).grad = gradient


def gather_weights(model: RetrievalModel) -> None:
    """Move the weights of a GRU into one piece of memory again, which cuDNN needs for a single model."""
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()


@torch.no_grad()
def clip_gradients(stacked: RetrievalModel, limit: float) -> None:
    """Scale the gradients of each model down to a norm of at most ``limit``, like ``clip_grad_norm_``."""
    gradients = [parameter.grad for parameter in stacked.parameters() if parameter.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    scales = (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scales.view(-1, *[1] * (gradient.dim() - 1)))
