"""Hyper-parameters of losses: a number, a tensor with one value per stacked trial, or learned with the model.

CLIP learns its temperature so, and SigLIP its bias. The class attribute ``parameters`` of a loss has its entries in the
table ``loss_parameters``, which says what can be learned. Such a hyper-parameter may be set to ``learned`` instead of a
number. The optimiser then steps a raw number w, and the hyper-parameter is exp(w) where it must be above 0, else w
itself. After each step, w is clamped to its bounds. A loss with a learned hyper-parameter can only be computed after
``with_values`` has replaced the word ``learned`` by a number. A trial does this in every step.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from trainables.errors import ConfigError
from trainables.hyper_parameters import HyperParameter, Learnable
from trainables.parameter_values import LEARNED

Parameter = float | Tensor
"""A number, or a tensor of the leading shape (...) of the similarities."""

LearnableParameter = Parameter | Literal["learned"]
"""A ``Parameter``, or the word for a learned parameter; see ``trainables.losses.parameters``."""


def check_parameters(loss: object, entries: Mapping[str, HyperParameter], *, but: Collection[str] = ()) -> None:
    """Raise ConfigError unless hyper-parameters obey their rules, each number of a tensor; ``but`` some are checked."""
    for name in entries.keys() - {*but}:
        value, domain = getattr(loss, name), entries[name].domain
        for part in numbers_of(name, value) if isinstance(value, Tensor) else [value]:
            if not domain.accepts(part):
                raise ConfigError(f"{name} must be {domain.rule}, got {part!r}")


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


def learnable_of(loss: object) -> Mapping[str, Learnable]:
    """Return the learnable hyper-parameters of a loss or of a loss class, by name."""
    entries: Mapping[str, HyperParameter] = getattr(loss, "parameters", {})
    return {name: entry.learned for name, entry in entries.items() if entry.learned is not None}


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
