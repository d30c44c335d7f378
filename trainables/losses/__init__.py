"""Losses on a similarity matrix, a module for each family, and the registry of losses, which plug-ins join.

A loss is a frozen dataclass whose fields are its hyper-parameters, numbers or tensors of the leading shape (...):

    loss(similarity, positives, ignore=None) -> Tensor of shape (...)

with ``similarity`` of shape (..., I, C), ``positives`` and ``ignore`` bool of shape (I, C). The module ``directions``
checks these arguments. Losses that ship also take ``candidates``, see ``trainables.bank``.
"""

from dataclasses import fields
from typing import Any, Protocol

from torch import Tensor

from trainables.errors import Blaming, ConfigError
from trainables.loss_parameters import LOSS_TABLE
from trainables.losses.directions import Contributions, Direction, NotANumberError
from trainables.losses.plugin_loss import make_loss
from trainables.plugins.in_use import NameTable, class_at, find_owner, run_offer

__all__ = ["LOSSES", "Contributions", "Direction", "Loss", "NotANumberError", "build_loss", "loss_class"]


class Loss(Protocol):
    """A loss: returns its value, and the weights in its gradient that COCOS counts."""

    def __call__(self, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Return the loss of each trial, shape (...)."""

    def contributions(self, direction: Direction) -> Contributions:
        """Return the weights of candidates and positives in the gradient of each query's term."""


def _class_of_plugin(name: str, _: object) -> type:
    return make_loss(*run_offer("losses", name), build_loss)


LOSSES: NameTable[type] = NameTable(
    "losses", {name: class_at(f"{__name__}.{entry.made_by}") for name, entry in LOSS_TABLE.items()}, _class_of_plugin
)
"""Every loss by the name that configs and search spaces use; a plug-in's loss is made when it is first read."""


def build_loss(name: str, **parameters: Any) -> Loss:
    """Make a loss by its name.

    Raises:
        ConfigError: If no loss has the name, the loss lacks a hyper-parameter, or a value is out of its range.

    Example:
        >>> build_loss("nt_xent", temperature=0.05)
        NTXent(temperature=0.05, hardness=0.0, hardness_mode='all')
    """
    made = loss_class(name)
    known = {field.name: field.default for field in fields(made)}
    unknown = sorted(parameters.keys() - known.keys())
    if unknown:
        raise ConfigError(f"{name} has the hyper-parameters {', '.join(known)}, got {', '.join(unknown)}")
    for parameter, value in parameters.items():
        # A config that was read from JSON has lists, but stacked trials are grouped by the hash of their parameters.
        if isinstance(value, list) and isinstance(known[parameter], tuple):
            parameters[parameter] = tuple(value)
    with Blaming():
        loss: Loss = made(**parameters)
    return loss


def loss_class(name: str) -> type:
    """Return the class of a loss; an installed plug-in that offers the name is taken into use.

    Raises:
        ConfigError: If no loss has the name.
        PluginError: If the loss's plug-in cannot be run.
    """
    if name not in LOSSES and find_owner("losses", name) is None:
        raise ConfigError(f"loss must be one of {', '.join(LOSSES)}, got {name!r}")
    return LOSSES[name]
