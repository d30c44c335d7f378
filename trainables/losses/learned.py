"""Hyper-parameters of losses that are learned with the model, as CLIP learns its temperature and SigLIP its bias.

A loss lists the hyper-parameters that can be learned in its class attribute ``learnable``: by name, how each is
learned. Such a hyper-parameter is set to ``learned`` in place of a number. The optimiser then steps a raw number w, of
which the hyper-parameter is a function: exp(w) where the hyper-parameter is above 0, else w itself. After each step, w
is clamped to the bounds. A loss with a learned hyper-parameter can only be computed after ``with_values`` has replaced
the word ``learned`` by a number, which its trial does in every step.

References:
    [Radford2021] Radford et al., Learning Transferable Visual Models From Natural Language Supervision, section 2.5.
        arXiv:2103.00020: the logarithm of the scale 1/t is learned from log(1/0.07), and the scale is at most 100.
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2. arXiv:2303.15343: the scale from
        10, the bias from -10.
"""

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from torch import Tensor

from trainables.config import LEARNED

L = TypeVar("L")


@dataclass(frozen=True)
class Learnable:
    """How a hyper-parameter is learned.

    Attributes:
        initial: Its value before the first step.
        minimum: The lowest value that it takes.
        maximum: The highest value that it takes.
        is_logarithmic: Whether steps are taken on its logarithm; ``minimum`` is then above 0.
    """

    initial: float
    minimum: float = -math.inf
    maximum: float = math.inf
    is_logarithmic: bool = False

    def raw(self, value: float) -> float:
        """Return the number w that stands for a value."""
        return math.log(value) if self.is_logarithmic else value

    def value(self, raw: Tensor) -> Tensor:
        """Return the value of each w, in the shape of ``raw``."""
        return raw.exp() if self.is_logarithmic else raw

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest w."""
        return self.raw(self.minimum), self.raw(self.maximum)

    def __str__(self) -> str:
        """Return a text for the list of losses."""
        of = " on its logarithm" if self.is_logarithmic else ""
        bounded = (self.minimum, self.maximum) != (-math.inf, math.inf)
        return f"from {self.initial:.4g}{of}{f', within [{self.minimum:g}, {self.maximum:g}]' if bounded else ''}"


CLIP_TEMPERATURE = Learnable(initial=0.07, minimum=0.01, maximum=1.0, is_logarithmic=True)
"""[Radford2021]. A step of log t is that of the log-scale log 1/t with the sign turned around. The lower bound of the
scale, 1, is that of open_clip, which clamps the log-scale to [0, log 100].
"""


def learnable_of(loss: object) -> Mapping[str, Learnable]:
    """Return the hyper-parameters of a loss, or of its class, that can be learned, by name."""
    found: Mapping[str, Learnable] = getattr(loss, "learnable", {})
    return found


def learned_names(loss: object) -> list[str]:
    """Return the hyper-parameters of a loss that are learned, in the order of its fields."""
    made: Any = loss
    return [one.name for one in fields(made) if isinstance(value := getattr(loss, one.name), str) and value == LEARNED]


def with_values(loss: L, values: Mapping[str, Any]) -> L:
    """Return a copy of a loss that has other hyper-parameters, which are not checked: they may need a gradient."""
    changed = copy(loss)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed
