"""K losses of one name that differ in their numbers, as one loss whose hyper-parameters are tensors of shape (K,)."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch

from trainables.losses import Loss


def stack_losses(losses: Sequence[Loss], device: torch.device) -> Loss:
    """Return the loss of K stacked trials.

    Numbers become (K,), coefficients (K, powers), the highest missing ones 0; words and switches must agree.

    Args:
        losses: At least one, of one class; see ``loss_shape``.
        device: Of the similarities.
    """
    # The class is one of the frozen dataclasses of ``LOSSES``.
    made: Any = type(losses[0])
    values = {field.name: [getattr(loss, field.name) for loss in losses] for field in fields(made)}
    stacked: Loss = made(**{name: _stack(column, device) for name, column in values.items()})
    return stacked


def loss_shape(loss: Loss) -> tuple[object, ...]:
    """Return what must be equal between losses that are stacked: the class, words, switches, and what is absent."""
    made: Any = type(loss)
    values = [getattr(loss, field.name) for field in fields(made)]
    return (made, *(type(value) if _is_number(value) or isinstance(value, tuple) else value for value in values))


def _stack(column: list[Any], device: torch.device) -> Any:
    if isinstance(column[0], tuple):
        powers = max(map(len, column))
        column = [[*vector, *[0.0] * (powers - len(vector))] for vector in column]
    elif not _is_number(column[0]):
        return column[0]
    return torch.tensor(column, dtype=torch.float64, device=device)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
