"""Torch's optimisers without its compiler, and their settings for each epoch.

Making an optimiser, or calling a method that torch excludes from compilation, imports torch's compiler, which is not
used here and costs every training process 3 seconds and 150 MB. So the methods are called without their wrappers.
"""

from collections.abc import Callable, Hashable, Iterable
from inspect import unwrap
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from trainables.config import TrainingConfig
from trainables.models.retrieval_model import RetrievalModel


def _eager_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the innermost ``step``, which runs without gradients as in torch's wrapper."""
    return torch.no_grad()(unwrap(step))


class AdamW(torch.optim.AdamW):
    """Adam with decoupled weight decay."""

    add_param_group, zero_grad = unwrap(Optimizer.add_param_group), unwrap(Optimizer.zero_grad)
    state_dict, load_state_dict = unwrap(Optimizer.state_dict), unwrap(Optimizer.load_state_dict)
    step = _eager_step(torch.optim.AdamW.step)


class SGD(torch.optim.SGD):
    """Stochastic gradient descent."""

    add_param_group, zero_grad = AdamW.add_param_group, AdamW.zero_grad
    state_dict, load_state_dict = AdamW.state_dict, AdamW.load_state_dict
    step = _eager_step(torch.optim.SGD.step)


def build_optimizer(model: RetrievalModel, training: TrainingConfig) -> torch.optim.Optimizer:
    """Make AdamW, which is Adam if the weight decay is 0, or plain SGD."""
    return optimizer_of(model.parameters(), training)


def optimizer_of(parameters: Iterable[nn.Parameter], training: TrainingConfig) -> torch.optim.Optimizer:
    """Make the optimiser of some parameters; see ``build_optimizer``."""
    make: type[Optimizer] = SGD if training.optimizer == "sgd" else AdamW
    settings: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay, "fused": True}
    # Torch refuses an empty list, but a group may be empty, as in a model whose heads are identities.
    return make([{"params": list(parameters)}], **settings)


def join_optimizers(optimizers: Iterable[Optimizer]) -> list[Optimizer]:
    """Return one optimiser for each group of optimisers with equal settings, which takes all steps of the group.

    Joined and given optimisers share their states; the settings of the given optimisers must not change meanwhile.
    """
    alike: dict[Hashable, list[Optimizer]] = {}
    for optimizer in optimizers:
        (group,) = optimizer.param_groups
        settings = tuple((name, value) for name, value in group.items() if name != "params")
        alike.setdefault((type(optimizer), settings), []).append(optimizer)
    joined = []
    for members in alike.values():
        owners = {parameter: member for member in members for parameter in member.param_groups[0]["params"]}
        make: Callable[..., Optimizer] = type(members[0])
        one = make([{**members[0].param_groups[0], "params": list(owners)}])
        # Both optimisers share a parameter's state dict, which is empty before the parameter's first step.
        one.state.update({parameter: member.state[parameter] for parameter, member in owners.items()})
        joined.append(one)
    return joined


def adjust_optimizer(optimizer: torch.optim.Optimizer, training: TrainingConfig, epoch: int) -> None:
    """Set the weight decay and the learning rate of an epoch, from 1.

    The rate is the initial rate with its drops, or the rate of fine-tuning, times a factor during the warm-up. The rate
    is constant within an epoch, so that resuming or stacking a training does not change its rate.
    """
    drops = (epoch - 1) // (training.learning_rate_drop_epochs * training.epoch_scale)
    rate = training.learning_rate * training.learning_rate_drop_factor**drops
    if training.finetune_learning_rate is not None and training.trains_backbone(epoch):
        rate = training.finetune_learning_rate
    warmup = training.warmup_epochs * training.epoch_scale
    rate *= min(1.0, epoch / (warmup + 1))
    for group in optimizer.param_groups:
        group["lr"], group["weight_decay"] = rate, training.weight_decay
