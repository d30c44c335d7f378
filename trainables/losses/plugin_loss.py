"""Makes a plug-in's loss usable like ours: checks its batches and results, and handles leading dimensions.

A function becomes a frozen dataclass whose fields are its parameters. Unless a loss is declared vectorised, the trials
of the leading dimensions are computed one after the other. Each call then gets one matrix (I, C), plain numbers for its
parameters, and the random numbers that torch's generator would give the trial alone.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from trainables.errors import Blaming, PluginError
from trainables.losses.directions import directions
from trainables.losses.parameters import with_values
from trainables.plugins.offers import Offer, as_dataclass
from trainables.seeding import random_state, set_random_state

PLACE = "__icr_place__"
"""Attribute of a plug-in's loss with the ``FILE:LINE`` of its definition."""


def place_of_loss(loss: object) -> str:
    """Return ``FILE:LINE`` of a plug-in's loss; empty for our losses."""
    return str(getattr(loss, PLACE, ""))


def make_loss(offer: Offer, place: str, build: Callable[..., Any]) -> type:
    """Return the class of a plug-in's loss.

    ``place`` is the ``FILE:LINE`` of the function or class, and ``build`` is ``build_loss``, which makes a pickled loss
    again in another process.
    """
    raw = offer.definition
    if inspect.isclass(raw):
        made = type(raw.__name__, (as_dataclass(raw),), {"__doc__": raw.__doc__, "__module__": raw.__module__})
        for name in ("__eq__", "__hash__", "__repr__", "__qualname__"):
            setattr(made, name, getattr(as_dataclass(raw), name))
        compute = raw.__call__
    else:
        parameters = list(inspect.signature(raw).parameters.values())[3:]
        fields = [(parameter.name, Any, dataclasses.field(default=parameter.default)) for parameter in parameters]
        namespace = {"__doc__": raw.__doc__, "__module__": raw.__module__}
        made = dataclasses.make_dataclass(offer.name, fields, frozen=True, namespace=namespace)

        def compute(self: Any, similarity: Tensor, positives: Tensor, ignore: Tensor) -> Any:
            own = {parameter.name: getattr(self, parameter.name) for parameter in parameters}
            return raw(similarity, positives, ignore, **own)

    def called(self: Any, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        # A plug-in's code expects a positive in every row and column, so labels without one are left out.
        asked = directions(similarity, positives, ignore)[1]
        scores, positives = asked.scores.mT.contiguous(), asked.positives.mT.contiguous()
        ignored = torch.zeros_like(positives) if asked.ignored is None else asked.ignored.mT.contiguous()
        leading = tuple(torch.broadcast_shapes(scores.shape[:-2], *(shape for _, _, shape in _tensors(self))))
        computed = partial(_computed, compute, place, positives, ignored)
        if offer.options.get("vectorised", False):
            return computed(self, scores, leading)
        return _one_by_one(computed, self, scores, leading) if leading else computed(_single(self, ()), scores, ())

    def reduced(self: Any) -> tuple[Any, ...]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return partial(build, offer.name, **values), ()

    for name, value in {"__call__": called, "__reduce__": reduced, PLACE: place}.items():
        setattr(made, name, value)
    return made


def _one_by_one(computed: Callable[..., Tensor], loss: Any, scores: Tensor, leading: tuple[int, ...]) -> Tensor:
    """Return the value of a plug-in's loss at each index of the leading dimensions."""
    scores = scores.expand(*leading, *scores.shape[-2:])
    states, values = [(device, random_state(device)) for device in (torch.device("cpu"), scores.device)], []
    for index in product(*map(range, leading)):
        # Each trial gets the random numbers that it would draw alone.
        for device, state in states:
            set_random_state(device, state)
        values.append(computed(_single(loss, index), scores[index], ()))
    return torch.stack(values).reshape(leading)


def _computed(
    compute: Callable[..., Any],
    place: str,
    positives: Tensor,
    ignored: Tensor,
    loss: Any,
    scores: Tensor,
    leading: tuple[int, ...],
) -> Tensor:
    """Return what a plug-in's code computes, if that is a loss of the shape ``leading``."""
    with Blaming():
        value = compute(loss, scores, positives, ignored)
    if not isinstance(value, Tensor):
        raise PluginError(f"{place}: must return a tensor, got {type(value).__name__} {value!r:.60}")
    if tuple(value.shape) != leading:
        wanted = f"shape {leading}" if leading else "a scalar, shape ()"
        raise PluginError(f"{place}: must return {wanted}, got shape {tuple(value.shape)}")
    if not value.is_floating_point():
        raise PluginError(f"{place}: must return a floating tensor, got {value.dtype}")
    if scores.requires_grad and torch.is_grad_enabled() and not value.requires_grad:
        raise PluginError(
            f"{place}: the value has no gradient: it does not depend on similarity, or was detached on the "
            f"way; where nothing is to be learned add 0 * similarity.sum()"
        )
    return value


def _tensors(loss: Any) -> Iterator[tuple[dataclasses.Field[Any], Tensor, torch.Size]]:
    """Yield each parameter that is a tensor, its value and its leading dimensions."""
    for field in dataclasses.fields(loss):
        value = getattr(loss, field.name)
        if isinstance(value, Tensor):
            yield field, value, value.shape[:-1] if isinstance(field.default, tuple) else value.shape


def _single(loss: Any, index: tuple[int, ...]) -> Any:
    """Return the loss of one of several trials, with parameters of the types of their defaults."""
    values = {}
    for field, value, shape in _tensors(loss):
        # A parameter is shared along leading dimensions that it lacks, or in which its size is 1.
        place = index[len(index) - len(shape) :]
        place = tuple(0 if size == 1 else number for size, number in zip(shape, place, strict=True))
        values[field.name] = _plain(value[place].tolist(), field.default)
    return with_values(loss, values) if values else loss


def _plain(value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(value)
    return int(value) if isinstance(default, int) else float(value)
