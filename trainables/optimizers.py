"""Torch's optimisers without its compiler, for the weights of a model and for learned parameters of its loss.

Making an optimiser, or calling a method that torch excludes from compilation, imports torch's compiler. The compiler is
not used here, and costs every training process 3 seconds and 150 MB. So the methods are called without their wrappers.

Each learned hyper-parameter of a loss has an optimiser of its own, of the training's kind and with the training's
learning rate and drops. It has no weight decay, which would pull a temperature to 1. ``training.gradient_clip`` clips
only the gradient of the model. Gradients of hyper-parameters are neither part of the norm nor scaled, so that clipping
is the same as with fixed values.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import unwrap
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainables.config import TrainingConfig
from trainables.losses.parameters import Learnable, learnable_of, learned_names, with_values


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


def build_optimizer(parameters: Iterable[nn.Parameter], training: TrainingConfig) -> torch.optim.Optimizer:
    """Make AdamW, which is Adam if the weight decay is 0, or plain SGD, of some parameters."""
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
        joint_optimizer = make([{**members[0].param_groups[0], "params": list(owners)}])
        # Both optimisers share a parameter's state dict, which is empty before the parameter's first step.
        joint_optimizer.state.update({parameter: member.state[parameter] for parameter, member in owners.items()})
        joined.append(joint_optimizer)
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


L = TypeVar("L")


class _Learned:
    """The learned hyper-parameters of a loss, of one trial or of K stacked trials.

    Attributes:
        raw: Name -> the numbers that an optimiser steps, shape () or (K,), see ``Learnable``.
    """

    def __init__(self) -> None:
        self.raw: dict[str, nn.Parameter] = {}
        self._how: dict[str, Learnable] = {}

    def in_force(self, loss: L) -> L:
        """Return a loss with the current values instead of ``learned``; gradients flow back to these values."""
        names = learned_names(loss)
        return with_values(loss, {name: self._how[name].value(self.raw[name]) for name in names}) if names else loss

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for raw in self.raw.values():
            raw.grad = None

    @torch.no_grad()
    def put_back(self) -> None:
        """Clamp the numbers to the bounds of their hyper-parameters."""
        for name, how in self._how.items():
            low, high = how.bounds()
            if (low, high) != (-math.inf, math.inf):
                self.raw[name].clamp_(low, high)


class LearnedParameters(_Learned):
    """The hyper-parameters that a trial's loss has learned so far, each with the optimiser that steps it.

    A schedule can begin to learn a hyper-parameter at a later epoch, from its initial value, or fix its value later.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self.optimizers: dict[str, Optimizer] = {}

    def begin_epoch(self, loss: object, training: TrainingConfig, epoch: int) -> None:
        """Make the hyper-parameters that the loss learns from this epoch on, and set the epoch's learning rates."""
        undecayed = replace(training, weight_decay=0.0)
        for name in learned_names(loss):
            if name not in self.raw:
                self._add(name, loss, undecayed)
        for optimizer in self.optimizers.values():
            adjust_optimizer(optimizer, undecayed, epoch)

    def numbers(self, loss: object) -> dict[str, float]:
        """Return the current value of each hyper-parameter that a loss learns."""
        return {name: float(self._how[name].value(self.raw[name].detach())) for name in learned_names(loss)}

    def step(self) -> None:
        """Take an optimiser step, and clamp the numbers to their bounds."""
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.put_back()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for ``load_state_dict``, plain values and tensors."""
        # Cloned, because stacked numbers are views, and saving a view saves the whole tensor behind the view.
        return {
            name: {"raw": self.raw[name].detach().clone(), "optimizer": optimizer.state_dict()}
            for name, optimizer in self.optimizers.items()
        }

    def load_state_dict(self, state: Mapping[str, Any], loss: object, training: TrainingConfig) -> None:
        """Restore the ``state_dict`` of a trial with this loss, in which nothing has been learned yet."""
        for name, saved in state.items():
            self._add(name, loss, replace(training, weight_decay=0.0))
            self.raw[name].data.copy_(saved["raw"])
            self.optimizers[name].load_state_dict(saved["optimizer"])

    def _add(self, name: str, loss: object, training: TrainingConfig) -> None:
        how = learnable_of(loss)[name]
        raw = nn.Parameter(torch.tensor(how.raw(how.initial), dtype=torch.float32, device=self._device))
        self._how[name], self.raw[name] = how, raw
        self.optimizers[name] = build_optimizer([raw], training)


class StackedParameters(_Learned):
    """The learned hyper-parameters of K trials of one kind of loss.

    The numbers and gradients of the trials become views of the stacked numbers and gradients, as with stacked models
    (see ``trainables.fused``).
    """

    def __init__(self, loss: object, members: list[LearnedParameters]) -> None:
        super().__init__()
        self._members = members
        for name in learned_names(loss):
            singles = [member.raw[name] for member in members]
            values = torch.stack([single.detach() for single in singles])
            self._how[name], self.raw[name] = learnable_of(loss)[name], nn.Parameter(values)
            for single, value in zip(singles, values.unbind(), strict=True):
                single.data = value

    def hand_out_gradients(self) -> None:
        """Set each trial's gradient to its part of the gradients."""
        for name, raw in self.raw.items():
            hand_out_gradient(raw, [member.raw[name] for member in self._members])


def hand_out_gradient(stacked: Tensor, singles: Sequence[Tensor]) -> None:
    """Set the gradients of single tensors to views of their parts of the gradient of their stack."""
    gradients: Sequence[Tensor | None] = [None] * len(singles) if stacked.grad is None else stacked.grad.unbind()
    for single, gradient in zip(singles, gradients, strict=True):
        single.grad = gradient
