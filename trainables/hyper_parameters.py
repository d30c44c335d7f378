"""An entry of the tables of hyper-parameters, of losses and of models: rule, default, range, source, how it is learned.

``loss_parameters`` and ``model_parameters`` hold the entries of ours; those of a plug-in are made from its decorator.
Constructors, search spaces, messages, lists, JSON schemas and documents read them. The module imports the standard
library alone, because spaces are checked before torch is imported.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.parameter_values import LEARNED, Domain, domain_like, or_else

Space = tuple[Any, ...] | list[Any]
"""``(low, high)``, ``(low, high, "log")``, ``(low, high, "int")``, or a list of values, as a plug-in declares it."""


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

    def value(self, raw: Any) -> Any:
        """Return the value of each w, a tensor in the shape of ``raw``, which is one."""
        return raw.exp() if self.is_logarithmic else raw

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest w."""
        return self.raw(self.minimum), self.raw(self.maximum)

    def __str__(self) -> str:
        """Return the text that the list of losses shows."""
        of = " on its logarithm" if self.is_logarithmic else ""
        bounded = (self.minimum, self.maximum) != (-math.inf, math.inf)
        return f"from {self.initial:.4g}{of}{f', within [{self.minimum:g}, {self.maximum:g}]' if bounded else ''}"


@dataclass(frozen=True)
class HyperParameter:
    """An entry of the tables.

    Attributes:
        default: Value of the constructor.
        rule: The numbers, words or coefficients that it may be.
        space: The range or the values that are searched; ``None`` where it keeps its default, or where its bounds
            depend on the batch. Those of a model are searched where an experiment asks for ``default``.
        is_optional: Whether a loss searches it only where an experiment asks for it.
        published: Published value; ``None`` where it is the default.
        source: Where the published value is from, in a few words.
        learned: How it is learned with the model; ``None`` where it cannot be.
        symbol: Letter in print; empty for the name in words.
    """

    default: Any
    rule: Domain
    space: Space | None = None
    is_optional: bool = False
    published: Any = None
    source: str = ""
    learned: Learnable | None = None
    symbol: str = ""

    @property
    def domain(self) -> Domain:
        """The values that an experiment may give it: those of the rule, and ``learned`` where it can be."""
        return self.rule if self.learned is None else or_else(self.rule, LEARNED)

    @property
    def first(self) -> Any:
        """The value with which it was published, and with which a search begins."""
        return self.default if self.published is None else self.published

    def __str__(self) -> str:
        """Return rule and default in words, for lists and schemas."""
        return f"{self.domain.rule}; by default {self.default!r}"


Entries = Mapping[str, HyperParameter]
"""Hyper-parameter, in the order of the constructor -> its entry."""


def published_values(entries: Entries) -> dict[str, str]:
    """Return the published value and its source in words, of the hyper-parameters that have a source."""
    return {name: f"{entry.first} ({entry.source})" for name, entry in entries.items() if entry.source}


def declared_parameters(about: Mapping[str, Any], *, of_loss: bool) -> Entries:
    """Return the entries of a plug-in's loss or model from the ``defaults`` and the ``space`` that it declares.

    A number of a loss is whole if its default is, and above 0 if its scale is logarithmic.
    """
    entries = {}
    for name, default in about["defaults"].items():
        bound = about["space"].get(name, {})
        rule = domain_like(
            default, bound.get("values", ()), whole=of_loss, positive=of_loss and bound.get("log", False)
        )
        space = _space_of(bound) if bound else None
        entries[name] = HyperParameter(tuple(default) if isinstance(default, list) else default, rule, space)
    return entries


def _space_of(bound: Mapping[str, Any]) -> Space:
    """Return a bound that a plug-in's description has as ``{low, high, log, whole}`` or ``{values}``."""
    if "values" in bound:
        return list(bound["values"])
    scales = {"log": bound.get("log", False), "int": bound.get("whole", False)}
    return (bound["low"], bound["high"], *(scale for scale, is_so in scales.items() if is_so))
