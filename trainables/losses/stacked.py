"""K losses of one name that differ in their numbers, as one loss whose hyper-parameters are tensors of shape (K,)."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch

from trainables.losses import Loss
from trainables.losses.parameters import with_values


def stack_losses(losses: Sequence[Loss], device: torch.device) -> Loss:
    """Return the loss of K stacked trials.

    Numbers become shape (K,). Coefficients become (K, powers), with 0 for missing powers. Words, such as ``learned``,
    and switches must be equal.

    Args:
        losses: At least one loss, all of one ``loss_shape``.
        device: Device of the similarities.
    """
    # Copied, because the constructor would check the coefficients of all trials on one domain; each loss was checked.
    columns = {name: [getattr(loss, name) for loss in losses] for name in _names(losses[0])}
    return with_values(losses[0], {name: _stack(column, device) for name, column in columns.items()})


def loss_shape(loss: Loss) -> tuple[object, ...]:
    """Return the properties that stacked losses must share: class, words, switches, and absent parameters."""
    return (type(loss), *(_kind(getattr(loss, name)) for name in _names(loss)))


def _names(loss: Loss) -> list[str]:
    made: Any = loss
    return [field.name for field in fields(made)]


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
