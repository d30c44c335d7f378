"""K models of one shape on top of each other: one forward and backward pass instead of K.

The parameters of the stacked model have the shape (K, ...). Those of each single model become views of its part, so
that whatever changes one, an optimiser or a constraint, changes the other, and nothing is copied between them.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from trainables.models.retrieval_model import RetrievalModel


def stack_models(models: Sequence[RetrievalModel]) -> RetrievalModel:
    """Return the stacked model, on the device of the models, whose parameters become views of its own.

    Args:
        models: At least one, of one class that ``can_stack``, with parameters of the same shapes. What is no parameter
            and no stacked setting is taken from the first.
    """
    # Parameters of the first would only be copied to be replaced.
    stacked = deepcopy(models[0], {id(parameter): parameter for parameter in models[0].parameters()})
    for name, _ in list(stacked.named_parameters()):
        values = torch.stack([model.get_parameter(name).detach() for model in models])
        owner, _, attribute = name.rpartition(".")
        setattr(stacked.get_submodule(owner), attribute, nn.Parameter(values))
        for model, value in zip(models, values.unbind(), strict=True):
            model.get_parameter(name).data = value
    for setting in stacked.stacked_settings:
        numbers = torch.tensor([getattr(model, setting) for model in models], device=values.device)
        setattr(stacked, setting, numbers[:, None, None])
    return stacked


def hand_out_gradients(stacked: RetrievalModel, models: Sequence[RetrievalModel]) -> None:
    """Give each single model its part of the stacked model's gradients, as views."""
    for name, parameter in stacked.named_parameters():
        gradients: tuple[Tensor | None, ...] = (None,) * len(models)
        if parameter.grad is not None:
            gradients = parameter.grad.unbind()
        for model, gradient in zip(models, gradients, strict=True):
            model.get_parameter(name).grad = gradient


def gather_weights(model: RetrievalModel) -> None:
    """Lay a recurrent part's weights into one piece of memory again, as cuDNN wants them of a model by itself."""
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()


@torch.no_grad()
def clip_gradients(stacked: RetrievalModel, limit: float) -> None:
    """Scale the gradients of each model to a norm of ``limit`` where theirs is above, as ``clip_grad_norm_`` does."""
    gradients = [parameter.grad for parameter in stacked.parameters() if parameter.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    scales = (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scales.view(-1, *[1] * (gradient.dim() - 1)))
