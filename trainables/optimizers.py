"""How weights are changed: torch's optimisers without its compiler, and what an epoch has them do.

The first optimiser that is made, and each method of it that torch marks as not to be compiled, imports the compiler,
which nothing here uses: 3 seconds and 150 MB for every process that trains. So the methods are taken as they were
before they were marked.
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
    """Return the innermost ``step``, without gradients as its wrapper would call it."""
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
    """Make Adam, or AdamW where there is weight decay (with none the two are the same), or plain SGD."""
    return optimizer_of(model.parameters(), training)


def optimizer_of(parameters: Iterable[nn.Parameter], training: TrainingConfig) -> torch.optim.Optimizer:
    """Make the optimiser of some parameters; see ``build_optimizer``."""
    make: type[Optimizer] = SGD if training.optimizer == "sgd" else AdamW
    settings: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay, "fused": True}
    # A list of parameters may not be empty, but that of a group may: a model of nothing but identities has none.
    return make([{"params": list(parameters)}], **settings)


def join_optimizers(optimizers: Iterable[Optimizer]) -> list[Optimizer]:
    """Return optimisers that take the steps of those given in fewer calls: one for all of the same settings.

    They work on the states of those given, whose settings must stay as they are while the joined ones are used.
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
        # A parameter's state is one dict for both; of a new parameter it is empty, and filled by the first step.
        one.state.update({parameter: member.state[parameter] for parameter, member in owners.items()})
        joined.append(one)
    return joined


def adjust_optimizer(optimizer: torch.optim.Optimizer, training: TrainingConfig, epoch: int) -> None:
    """Set weight decay and rate of an epoch, from 1.

    The rate is the initial one with its drops, or that of fine-tuning where there is one; a warm-up takes a part of it.
    An epoch has one rate, so that a training which is resumed, or stacked on others, has the rate that it has alone.
    """
    drops = (epoch - 1) // (training.learning_rate_drop_epochs * training.epoch_scale)
    rate = training.learning_rate * training.learning_rate_drop_factor**drops
    if training.finetune_learning_rate is not None and training.trains_backbone(epoch):
        rate = training.finetune_learning_rate
    warmup = training.warmup_epochs * training.epoch_scale
    rate *= min(1.0, epoch / (warmup + 1))
    for group in optimizer.param_groups:
        group["lr"], group["weight_decay"] = rate, training.weight_decay
