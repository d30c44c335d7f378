"""Hyper-parameters of losses: a number, a tensor with one value per stacked trial, or ``learned``."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from trainables.config import LEARNED
from trainables.errors import ConfigError

Parameter = float | Tensor
"""A number, or a tensor of the leading shape (...) of the similarities."""

LearnableParameter = Parameter | Literal["learned"]
"""A ``Parameter``, or the word for a learned parameter; see ``trainables.losses.learned``."""


def require_above_zero(name: str, value: LearnableParameter, *, learnable: bool = False) -> None:
    """Raise ConfigError unless every value is a finite number above 0, or ``learned`` and ``learnable``."""
    _require(name, value, "a finite number above 0", lambda number: 0 < number < math.inf, learnable)


def require_finite_number(name: str, value: LearnableParameter, *, learnable: bool = False) -> None:
    """Raise ConfigError unless every value is a finite number, or ``learned`` and ``learnable``."""
    _require(name, value, "a finite number", math.isfinite, learnable)


def require_not_negative(name: str, value: Parameter) -> None:
    """Raise ConfigError unless every value is a finite number >= 0."""
    _require(name, value, "a finite number, 0 or above", lambda number: 0 <= number < math.inf)


def numbers_of(name: str, value: object) -> list[float]:
    """Return a number, or each number of a tensor, as floats.

    Raises:
        ConfigError: If ``value`` is neither.
    """
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


def _require(name: str, value: object, rule: str, holds: Callable[[float], bool], learnable: bool = False) -> None:
    if learnable and isinstance(value, str):
        if value != LEARNED:
            raise ConfigError(f"{name} must be {rule}, or {LEARNED!r}, got {value!r}")
        return
    for number in numbers_of(name, value):
        if not holds(number):
            raise ConfigError(f"{name} must be {rule}, got {number}")
