"""Hyper-parameters of losses: a number, a tensor with one value per stacked trial, or learned with the model.

CLIP learns its temperature so, and SigLIP its bias. The class attribute ``learnable`` of a loss maps the name of each
hyper-parameter that can be learned to a ``Learnable``. Such a hyper-parameter may be set to ``learned`` instead of a
number. The optimiser then steps a raw number w, and the hyper-parameter is exp(w) where it must be above 0, else w
itself. After each step, w is clamped to its bounds. A loss with a learned hyper-parameter can only be computed after
``with_values`` has replaced the word ``learned`` by a number. A trial does this in every step.

References:
    [Radford2021] Radford et al., Learning Transferable Visual Models From Natural Language Supervision, section 2.5.
        arXiv:2103.00020: the logarithm of the scale 1/t is learned from log(1/0.07), and the scale is at most 100.
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2. arXiv:2303.15343: the scale from
        10, the bias from -10.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from trainables.errors import ConfigError
from trainables.parameter_values import LEARNED, Domain

Parameter = float | Tensor
"""A number, or a tensor of the leading shape (...) of the similarities."""

LearnableParameter = Parameter | Literal["learned"]
"""A ``Parameter``, or the word for a learned parameter; see ``trainables.losses.parameters``."""


ABOVE_ZERO = Domain("a finite number above 0", lambda number: 0 < number < math.inf)
NOT_NEGATIVE = Domain("a finite number, 0 or above", lambda number: 0 <= number < math.inf)
FINITE = Domain("a finite number", math.isfinite)


def check_rule(loss: object, domain: Domain, *names: str) -> None:
    """Raise ConfigError unless each number of some hyper-parameters is in a domain, or is ``learned`` and learnable."""
    for name in names:
        value = getattr(loss, name)
        if isinstance(value, str) and name in learnable_of(loss):
            if value != LEARNED:
                raise ConfigError(f"{name} must be {domain.rule}, or {LEARNED!r}, got {value!r}")
            continue
        for number in numbers_of(name, value):
            if not domain.accepts(number):
                raise ConfigError(f"{name} must be {domain.rule}, got {number}")


def numbers_of(name: str, value: object) -> list[float]:
    """Return a number, or each number of a tensor, as floats (``ConfigError`` for other values)."""
    if isinstance(value, Tensor) and (value.is_floating_point() or value.dtype in (torch.int32, torch.int64)):
        return [float(number) for number in value.detach().flatten().tolist()]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [float(value)]
    raise ConfigError(f"{name} must be a number or a tensor of numbers, got {value!r}")


def per_query(value: LearnableParameter, scores: Tensor) -> Parameter:
    """Reshape (...) to (..., 1), to broadcast over queries or pairs, in the dtype of ``scores``."""
    value = _in_force(value)
    return value.to(scores.dtype)[..., None] if isinstance(value, Tensor) else value


def per_score(value: LearnableParameter, scores: Tensor) -> Parameter:
    """Reshape (...) to (..., 1, 1), to broadcast over queries and candidates, in the dtype of ``scores``."""
    value = _in_force(value)
    return value.to(scores.dtype)[..., None, None] if isinstance(value, Tensor) else value


def _in_force(value: LearnableParameter) -> Parameter:
    if isinstance(value, str):
        raise ConfigError(f"a {value} hyper-parameter has no value before its trial gives it one")
    return value


L = TypeVar("L")


@dataclass(frozen=True)
class Learnable:
    """How a hyper-parameter is learned, from an initial value on.

    Where the optimiser steps the logarithm of the value, ``minimum`` is above 0.
    """

    initial: float
    minimum: float = -math.inf
    maximum: float = math.inf
    is_logarithmic: bool = False

    def raw(self, value: float) -> float:
        """Return the raw number w of a value."""
        return math.log(value) if self.is_logarithmic else value

    def value(self, raw: Tensor) -> Tensor:
        """Return the value of each w, in the shape of ``raw``."""
        return raw.exp() if self.is_logarithmic else raw

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest w."""
        return self.raw(self.minimum), self.raw(self.maximum)

    def __str__(self) -> str:
        """Return the text that the list of losses shows."""
        of = " on its logarithm" if self.is_logarithmic else ""
        bounded = (self.minimum, self.maximum) != (-math.inf, math.inf)
        return f"from {self.initial:.4g}{of}{f', within [{self.minimum:g}, {self.maximum:g}]' if bounded else ''}"


CLIP_TEMPERATURE = Learnable(initial=0.07, minimum=0.01, maximum=1.0, is_logarithmic=True)
"""[Radford2021]. A step of log t is the negative of the same step of the log-scale log 1/t. The lower bound 1 of the
scale comes from open_clip, which clamps the log-scale to [0, log 100].
"""


def learnable_of(loss: object) -> Mapping[str, Learnable]:
    """Return the learnable hyper-parameters of a loss or of a loss class, by name."""
    learnables: Mapping[str, Learnable] = getattr(loss, "learnable", {})
    return learnables


def learned_names(loss: object) -> list[str]:
    """Return the names of a loss's learnable hyper-parameters that are set to ``learned``."""
    return [name for name in learnable_of(loss) if isinstance(value := getattr(loss, name), str) and value == LEARNED]


def field_names(loss: Any) -> list[str]:
    """Return the names of a loss's hyper-parameters, in the order of its fields."""
    return [field.name for field in fields(loss)]


def with_values(loss: L, values: Mapping[str, Any]) -> L:
    """Return a copy of a loss with other hyper-parameters, which are not checked, because they may need a gradient."""
    # Not copy.copy, which builds a plug-in's loss anew, and so checks it.
    changed = object.__new__(type(loss))
    vars(changed).update({**vars(loss), **values})
    return changed


def stack_losses(losses: Sequence[L], device: torch.device) -> L:
    """Return the loss of K stacked trials.

    Numbers become shape (K,). Coefficients become (K, powers), with 0 for missing powers. Words, such as ``learned``,
    and switches must be equal.

    The losses, one at least, are of one ``loss_shape``.
    """
    # Copied, because the constructor would check the coefficients of all trials on one domain; each loss was checked.
    columns = {name: [getattr(loss, name) for loss in losses] for name in field_names(losses[0])}
    return with_values(losses[0], {name: _stack(column, device) for name, column in columns.items()})


def loss_shape(loss: object) -> tuple[object, ...]:
    """Return the properties that stacked losses must share: class, words, switches, and absent parameters."""
    return (type(loss), *(_kind(getattr(loss, name)) for name in field_names(loss)))


def _stack(column: list[Any], device: torch.device) -> Any:
    if isinstance(column[0], tuple):
        powers = max(map(len, column))
        column = [[*vector, *[0.0] * (powers - len(vector))] for vector in column]
    elif not _is_number(column[0]):
        return column[0]
    return torch.tensor(column, dtype=torch.float64, device=device)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: object) -> object:
    """Return the kind of a value: numbers stack with numbers, coefficients with coefficients, else equal values."""
    if _is_number(value):
        return float
    return tuple if isinstance(value, tuple) else value
