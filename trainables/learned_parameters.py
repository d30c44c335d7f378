"""The learned hyper-parameters of a trial's loss: their numbers, what steps them, and what a checkpoint keeps of them.

Each has an optimiser of its own, of the kind and with the learning rate of the training, its drops included, and
without weight decay, which would pull a temperature to 1. ``training.gradient_clip`` is about the gradient of the
model: the gradient of a hyper-parameter is neither part of the norm nor scaled, so that the model is clipped as it is
beside a fixed value.
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
    """One of them.

    Attributes:
        how: What its number stands for, and between which bounds.
        raw: The number that is stepped, shape ().
        optimizer: Steps it.
    """

    how: Learnable
    raw: nn.Parameter
    optimizer: Optimizer

    def value(self) -> Tensor:
        """Return the value that the loss gets, shape ()."""
        return self.how.value(self.raw)


class LearnedParameters:
    """Those that a trial's loss has learned so far, by name.

    A schedule can begin to learn one at a later epoch, from its initial value, or go on with a number in its place.

    Attributes:
        each: By name.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.each: dict[str, LearnedParameter] = {}

    def begin_epoch(self, loss: object, training: TrainingConfig, epoch: int) -> None:
        """Make what the loss learns from this epoch on, and set the rates of the epoch."""
        undecayed = replace(training, weight_decay=0.0)
        for name in learned_names(loss):
            if name not in self.each:
                self._add(name, learnable_of(loss)[name], undecayed)
        for one in self.each.values():
            adjust_optimizer(one.optimizer, undecayed, epoch)

    def in_force(self, loss: L) -> L:
        """Return a loss with the present values in the places of ``learned``; their gradients come back here."""
        names = learned_names(loss)
        return with_values(loss, {name: self.each[name].value() for name in names}) if names else loss

    def numbers(self, loss: object) -> dict[str, float]:
        """Return the present value of each hyper-parameter that a loss learns."""
        return {name: float(self.each[name].value().detach()) for name in learned_names(loss)}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for one in self.each.values():
            one.raw.grad = None

    def step(self) -> None:
        """Take a step along the gradients, and go back between the bounds."""
        for one in self.each.values():
            one.optimizer.step()
            put_back(one.how, one.raw)

    def state_dict(self) -> dict[str, Any]:
        """Return what ``load_state_dict`` takes, plain values and tensors."""
        # Cloned, for a file holds all of the memory that a tensor is a view of, and stacked numbers are views.
        return {
            name: {"raw": one.raw.detach().clone(), "optimizer": one.optimizer.state_dict()}
            for name, one in self.each.items()
        }

    def load_state_dict(self, state: Mapping[str, Any], loss: object, training: TrainingConfig) -> None:
        """Go back to what ``state_dict`` gave of a trial with the same loss."""
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

    The number of each trial becomes a view of its part, and its gradient is handed out as a view, as those of stacked
    models are (see ``trainables.models.stack``).
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
        """Return the loss of the K trials with their present values in the places of ``learned``."""
        return with_values(loss, {name: how.value(self._raw[name]) for name, how in self._how.items()})

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for raw in self._raw.values():
            raw.grad = None

    def hand_out_gradients(self) -> None:
        """Give each trial its part of the gradients."""
        for name, raw in self._raw.items():
            gradients: tuple[Tensor | None, ...] = (None,) * len(self._members)
            if raw.grad is not None:
                gradients = raw.grad.unbind()
            for member, gradient in zip(self._members, gradients, strict=True):
                member.each[name].raw.grad = gradient

    def put_back(self) -> None:
        """Go back between the bounds, which those of each trial do with it."""
        for name, how in self._how.items():
            put_back(how, self._raw[name])


@torch.no_grad()
def put_back(how: Learnable, raw: Tensor) -> None:
    """Put numbers back between the bounds of their hyper-parameter."""
    low, high = how.bounds()
    if (low, high) != (-math.inf, math.inf):
        raw.clamp_(low, high)
