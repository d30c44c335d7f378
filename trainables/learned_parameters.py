"""The learned hyper-parameters of a trial's loss: their numbers, their optimisers, and their state in a checkpoint.

Each hyper-parameter has an optimiser of its own, of the training's kind and with the training's learning rate and
drops, but without weight decay, which would pull a temperature to 1. ``training.gradient_clip`` clips only the gradient
of the model: gradients of hyper-parameters are neither part of the norm nor scaled, so that clipping is the same as
with fixed values.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainables.config import TrainingConfig
from trainables.losses.learned import Learnable, learnable_of, learned_names, with_values
from trainables.optimizers import adjust_optimizer, optimizer_of

L = TypeVar("L")


@dataclass(frozen=True)
class LearnedParameter:
    """One learned hyper-parameter.

    Attributes:
        how: Parametrisation and bounds of the number.
        raw: The number that the optimiser steps, shape ().
        optimizer: Optimiser of ``raw``.
    """

    how: Learnable
    raw: nn.Parameter
    optimizer: Optimizer

    def value(self) -> Tensor:
        """Return the value that the loss gets, shape ()."""
        return self.how.value(self.raw)


class LearnedParameters:
    """The hyper-parameters that a trial's loss has learned so far.

    A schedule can begin to learn a hyper-parameter at a later epoch, from its initial value, or fix its value later.

    Attributes:
        each: Name -> learned hyper-parameter.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.each: dict[str, LearnedParameter] = {}

    def begin_epoch(self, loss: object, training: TrainingConfig, epoch: int) -> None:
        """Make the hyper-parameters that the loss learns from this epoch on, and set the epoch's learning rates."""
        undecayed = replace(training, weight_decay=0.0)
        for name in learned_names(loss):
            if name not in self.each:
                self._add(name, learnable_of(loss)[name], undecayed)
        for one in self.each.values():
            adjust_optimizer(one.optimizer, undecayed, epoch)

    def in_force(self, loss: L) -> L:
        """Return a loss with the current values instead of ``learned``; gradients flow back to these values."""
        names = learned_names(loss)
        return with_values(loss, {name: self.each[name].value() for name in names}) if names else loss

    def numbers(self, loss: object) -> dict[str, float]:
        """Return the current value of each hyper-parameter that a loss learns."""
        return {name: float(self.each[name].value().detach()) for name in learned_names(loss)}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for one in self.each.values():
            one.raw.grad = None

    def step(self) -> None:
        """Take an optimiser step, and clamp the numbers to their bounds."""
        for one in self.each.values():
            one.optimizer.step()
            put_back(one.how, one.raw)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for ``load_state_dict``, plain values and tensors."""
        # Cloned, because stacked numbers are views, and saving a view saves the whole tensor behind the view.
        return {
            name: {"raw": one.raw.detach().clone(), "optimizer": one.optimizer.state_dict()}
            for name, one in self.each.items()
        }

    def load_state_dict(self, state: Mapping[str, Any], loss: object, training: TrainingConfig) -> None:
        """Restore the ``state_dict`` of a trial with this loss."""
        self.each.clear()
        for name, saved in state.items():
            self._add(name, learnable_of(loss)[name], replace(training, weight_decay=0.0))
            self.each[name].raw.data.copy_(saved["raw"])
            self.each[name].optimizer.load_state_dict(saved["optimizer"])

    def _add(self, name: str, how: Learnable, training: TrainingConfig) -> None:
        raw = nn.Parameter(torch.tensor(how.raw(how.initial), dtype=torch.float32, device=self._device))
        self.each[name] = LearnedParameter(how, raw, optimizer_of([raw], training))


class StackedParameters:
    """The learned hyper-parameters of K trials of one kind of loss, as numbers of shape (K,).

    The numbers and gradients of the trials become views of the stacked numbers and gradients, as with stacked models
    (see ``trainables.models.stack``).
    """

    def __init__(self, loss: object, members: list[LearnedParameters]) -> None:
        self._members = members
        self._how = {name: learnable_of(loss)[name] for name in learned_names(loss)}
        self._raw: dict[str, nn.Parameter] = {}
        for name in self._how:
            singles = [member.each[name].raw for member in members]
            values = torch.stack([single.detach() for single in singles])
            self._raw[name] = nn.Parameter(values)
            for single, value in zip(singles, values.unbind(), strict=True):
                single.data = value

    def in_force(self, loss: L) -> L:
        """Return the loss of the K trials with their current values instead of ``learned``."""
        return with_values(loss, {name: how.value(self._raw[name]) for name, how in self._how.items()})

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for raw in self._raw.values():
            raw.grad = None

    def hand_out_gradients(self) -> None:
        """Set each trial's gradient to its part of the gradients."""
        for name, raw in self._raw.items():
            gradients: tuple[Tensor | None, ...] = (None,) * len(self._members)
            if raw.grad is not None:
                gradients = raw.grad.unbind()
            for member, gradient in zip(self._members, gradients, strict=True):
                member.each[name].raw.grad = gradient

    def put_back(self) -> None:
        """Clamp the numbers of all trials to the bounds."""
        for name, how in self._how.items():
            put_back(how, self._raw[name])


@torch.no_grad()
def put_back(how: Learnable, raw: Tensor) -> None:
    """Clamp numbers to the bounds of their hyper-parameter."""
    low, high = how.bounds()
    if (low, high) != (-math.inf, math.inf):
        raw.clamp_(low, high)
