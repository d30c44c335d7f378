"""Torch's optimisers without its compiler, for the weights of a model and for learned parameters of its loss.

Making an optimiser, or calling a method that torch excludes from compilation, imports torch's compiler. The compiler is
not used here, and costs every training process 3 seconds and 150 MB. So the methods are called without their wrappers.

Each learned hyper-parameter of a loss has an optimiser of its own, of the training's kind, with ``loss_learning_rate``
or else the training's rate, and the factor of all rates. It has no weight decay, which would pull a temperature to 1.
``training.gradient_clip`` clips only the gradient of the model. Gradients of hyper-parameters are neither part of the
norm nor scaled, so that clipping is the same as with fixed values.

An average of the weights [Polyak1992] is moved after each step, from the initial weights on:

    average <- d_t average + (1 - d_t) weights,   d_t = min(d, (1 + t) / (10 + t)) in step t, from 1

The lower decay of the first steps forgets the initial weights sooner. Only parameters are averaged; statistics of batch
norms are those of the weights.

References:
    [Polyak1992] Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging. SIAM J. Control and
        Optimization 30(4), 1992
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import unwrap
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainables.config import Schedule, TrainingConfig
from trainables.hyper_parameters import Learnable
from trainables.losses.parameters import learnable_of, learned_names, with_values


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


def build_optimizer(
    parameters: Iterable[nn.Parameter], training: TrainingConfig, backbone: Iterable[nn.Parameter] = ()
) -> torch.optim.Optimizer:
    """Make AdamW, which is Adam if the weight decay is 0, or plain SGD, of some parameters.

    Parameters that differ in rate or decay are in groups of their own; ``backbone`` are those of the backbone.
    """
    make: type[Optimizer] = SGD if training.optimizer == "sgd" else AdamW
    settings: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay, "fused": True}
    own = set() if training.backbone_learning_rate is None else set(backbone)
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter in parameters:
        is_decayed = training.weight_decay_of == "all" or parameter.dim() > 1
        groups.setdefault((parameter in own, is_decayed), []).append(parameter)
    if groups.keys() <= {(False, True)}:
        # Torch refuses an empty list, but a group may be empty, as in a model whose heads are identities.
        return make([{"params": groups.get((False, True), [])}], **settings)
    return make(
        [
            {"params": members, "is_backbone": is_backbone, "is_decayed": is_decayed}
            for (is_backbone, is_decayed), members in groups.items()
        ],
        **settings,
    )


def join_optimizers(optimizers: Iterable[Optimizer]) -> list[Optimizer]:
    """Return one optimiser for each group of optimisers with equal settings, which takes all steps of the group.

    Joined and given optimisers share their states; the settings of the given optimisers must not change meanwhile.
    """
    alike: dict[Hashable, list[Optimizer]] = {}
    for optimizer in optimizers:
        settings = tuple(
            tuple((name, value) for name, value in group.items() if name != "params")
            for group in optimizer.param_groups
        )
        alike.setdefault((type(optimizer), settings), []).append(optimizer)
    joined = []
    for members in alike.values():
        make: Callable[..., Optimizer] = type(members[0])
        groups_of_members = zip(*(member.param_groups for member in members), strict=True)
        joint_optimizer = make(
            [
                {**groups[0], "params": [parameter for group in groups for parameter in group["params"]]}
                for groups in groups_of_members
            ]
        )
        # Both optimisers share a parameter's state dict, which is empty before the parameter's first step.
        for member in members:
            for group in member.param_groups:
                joint_optimizer.state.update({parameter: member.state[parameter] for parameter in group["params"]})
        joined.append(joint_optimizer)
    return joined


def adjust_optimizer(optimizer: torch.optim.Optimizer, training: TrainingConfig, epoch: int) -> None:
    """Set the weight decay and the learning rate of an epoch, from 1.

    Each group has a rate, times one factor: of the schedule, and of the warm-up. The rate of fine-tuning takes the
    place of the initial rate. The rate is constant within an epoch, so that resuming or stacking a training does not
    change its rate.
    """
    warmed = min(1.0, epoch / (training.warmup_epochs * training.epoch_scale + 1))
    factor = warmed * SCHEDULES[training.learning_rate_schedule](training, epoch)
    tuned = _finetune_rate(training, epoch)
    for group in optimizer.param_groups:
        own = training.backbone_learning_rate if group.get("is_backbone", False) else None
        group["lr"] = factor * next(number for number in (own, tuned, training.learning_rate) if number is not None)
        group["weight_decay"] = training.weight_decay if group.get("is_decayed", True) else 0.0


def _finetune_rate(training: TrainingConfig, epoch: int) -> float | None:
    return training.finetune_learning_rate if training.trains_backbone(epoch) else None


def _drops(training: TrainingConfig, epoch: int) -> float:
    """Return the factor of the drops so far; there are none with a rate of fine-tuning."""
    if _finetune_rate(training, epoch) is not None:
        return 1.0
    drops = (epoch - 1) // (training.learning_rate_drop_epochs * training.epoch_scale)
    return float(training.learning_rate_drop_factor**drops)


def _cosine(training: TrainingConfig, epoch: int) -> float:
    """Return half a cosine's value at the middle of an epoch after the warm-up."""
    warmup = training.warmup_epochs * training.epoch_scale
    cooled = max(0.0, (epoch - warmup - 0.5) / max(1, training.total_epochs - warmup))
    return (1 + math.cos(math.pi * cooled)) / 2


SCHEDULES: Mapping[Schedule, Callable[[TrainingConfig, int], float]] = {"drops": _drops, "cosine": _cosine}
"""``training.learning_rate_schedule`` -> the factor on the rates in an epoch, from 1."""


class HeldRates:
    """Learning rates in tensors that keep their place, so that a captured step has the rate of its epoch."""

    def __init__(self) -> None:
        self._rates: dict[int, Tensor] = {}

    @contextmanager
    def in_force(self, optimizers: Sequence[Optimizer]) -> Iterator[None]:
        """Let optimisers take their present rates from tensors during a ``with`` block.

        The optimisers are the same in each call, or new ones follow them. A rate on a GPU is float32.
        """
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        former = [(group["lr"], group.get("capturable")) for group in groups]
        for optimizer in optimizers:
            # PyTorch warns of a step that is not captured, which here checks a captured one.
            optimizer._warned_capturable_if_run_uncaptured = True
        for (number, group), (rate, _) in zip(enumerate(groups), former, strict=True):
            if group["params"]:
                device = group["params"][0].device
                dtype = torch.float64 if device.type == "cpu" else torch.float32
                held = self._rates.setdefault(number, torch.zeros((), dtype=dtype, device=device))
                group["lr"] = held.fill_(rate)
            group["capturable"] = True
        try:
            yield
        finally:
            for group, (rate, capturable) in zip(groups, former, strict=True):
                group["lr"] = rate
                if capturable is None:
                    del group["capturable"]
                else:
                    group["capturable"] = capturable


class WeightAverage:
    """The exponential moving average of a model's weights, see the module's docstring.

    Attributes:
        steps: Number of steps so far.
        weights: Name -> average, in the shape, dtype and on the device of the parameter.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Begin with the model's weights; ``decay`` is in [0, 1)."""
        self.steps, self._decay = 0, decay
        self._parameters = dict(model.named_parameters())
        self.weights = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    @torch.no_grad()
    def step(self) -> None:
        """Move the average towards the weights after a step."""
        self.steps += 1
        decay = min(self._decay, (1 + self.steps) / (10 + self.steps))
        if self.weights:
            # The storage of a stacked trial's weights changes from stack to stack, the parameter stays.
            now = [parameter.detach() for parameter in self._parameters.values()]
            torch._foreach_lerp_(list(self.weights.values()), now, 1 - decay)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let the model have the average for its weights, and afterwards its own weights again, to the last bit."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._set(self.weights)
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])

    def state_dict(self) -> dict[str, Any]:
        """Return the state for ``load_state_dict``."""
        return {"steps": self.steps, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the ``state_dict`` of an average of this model."""
        self.steps = state["steps"]
        for name, average in self.weights.items():
            average.copy_(state["weights"][name])


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

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to 0 where they lie."""
        for raw in self.raw.values():
            if set_to_none or raw.grad is None:
                raw.grad = None
            else:
                raw.grad.zero_()

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

    def __init__(self, device: torch.device, initial_values: Mapping[str, float] = MappingProxyType({})) -> None:
        """Begin; ``initial_values`` take the place of those of the table, as far as they lie within its bounds."""
        super().__init__()
        self._device, self._initial_values = device, initial_values
        self.optimizers: dict[str, Optimizer] = {}

    def begin_epoch(self, loss: object, training: TrainingConfig, epoch: int) -> None:
        """Make the hyper-parameters that the loss learns from this epoch on, and set the epoch's learning rates."""
        undecayed = _of_loss(training)
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
            self._add(name, loss, _of_loss(training))
            self.raw[name].data.copy_(saved["raw"])
            self.optimizers[name].load_state_dict(saved["optimizer"])

    def _add(self, name: str, loss: object, training: TrainingConfig) -> None:
        how = learnable_of(loss)[name]
        initial = min(max(self._initial_values.get(name, how.initial), how.minimum), how.maximum)
        raw = nn.Parameter(torch.tensor(how.raw(initial), dtype=torch.float32, device=self._device))
        self._how[name], self.raw[name] = how, raw
        self.optimizers[name] = build_optimizer([raw], training)


def _of_loss(training: TrainingConfig) -> TrainingConfig:
    """Return the settings with which the hyper-parameters of a loss are learned."""
    if training.loss_learning_rate is None:
        return replace(training, weight_decay=0.0)
    rate = training.loss_learning_rate
    tuned = None if training.finetune_learning_rate is None else rate
    return replace(training, weight_decay=0.0, learning_rate=rate, finetune_learning_rate=tuned)


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
