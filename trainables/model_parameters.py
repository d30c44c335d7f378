"""The input features and the parameters of each model, checked before torch is imported.

A model's parameters are keyword arguments of its constructor. This module has their names and accepted values, so that
wrong ``model_parameters`` of a config are refused at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from trainables.backbone_names import BACKBONES
from trainables.errors import ConfigError

FEATURES = {"vsepp": "global", "vsrn": "regions", "scan": "regions", "wsabie": "global", "head": "global"}
"""Model -> kind of image features that it reads: ``global`` (I, D) or ``regions`` (I, R, D)."""


@dataclass(frozen=True)
class OneOf:
    """A word of a few."""

    words: tuple[str, ...]

    def accepts(self, value: object) -> bool:
        """Whether the value is one of the words."""
        return value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


@dataclass(frozen=True)
class Switch:
    """True or false."""

    def accepts(self, value: object) -> bool:
        """Whether the value is a bool."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Positive:
    """A finite number above 0."""

    def accepts(self, value: object) -> bool:
        """Whether the value is such a number; a bool is none."""
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf

    def __str__(self) -> str:
        return "a finite number above 0"


@dataclass(frozen=True)
class NotNegative:
    """A finite number of at least 0."""

    def accepts(self, value: object) -> bool:
        """Whether the value is such a number; a bool is none."""
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf

    def __str__(self) -> str:
        return "a finite number of at least 0"


@dataclass(frozen=True)
class Count:
    """A whole number of at least 1."""

    def accepts(self, value: object) -> bool:
        """Whether the value is such a number; a bool is none."""
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1

    def __str__(self) -> str:
        return "a whole number of at least 1"


@dataclass(frozen=True)
class BackboneName:
    """A classifier of torchvision."""

    def accepts(self, value: object) -> bool:
        """Whether torchvision has it."""
        return value in BACKBONES

    def __str__(self) -> str:
        return "a classifier of torchvision (resnet50, resnet152, vgg19, ...)"


@dataclass(frozen=True)
class Weights:
    """Where the weights of a backbone come from; whether a file is there shows when it is read."""

    def accepts(self, value: object) -> bool:
        """Whether the value can be a word or a path."""
        return isinstance(value, str) and bool(value)

    def __str__(self) -> str:
        return "DEFAULT (torchvision's), none (untrained) or a state-dict file"


@dataclass(frozen=True)
class Like:
    """A value of the type of a default: a parameter of a plug-in's model.

    Attributes:
        default: The constructor's default.
        words: Accepted words, where the default is a word; empty for any word.
    """

    default: object
    words: tuple[object, ...] = ()

    def accepts(self, value: object) -> bool:
        """Whether the value is a finite number where the default is one, else of the default's type."""
        if isinstance(self.default, int | float) and not isinstance(self.default, bool):
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if isinstance(self.default, str) and self.words:
            return value in self.words
        return isinstance(value, type(self.default))

    def __str__(self) -> str:
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return f"one of {', '.join(map(str, self.words))}" if self.words else "a word"
        return "a finite number"


HEADS = OneOf(("linear", "mlp", "residual", "identity"))
"""Heads, which map the features of a side into the joint space."""

NORMS = OneOf(("clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm", "clipped", "softmax", "no_norm"))
"""SCAN's norms of the products of regions and words before the softmax."""

Accepted = OneOf | Switch | Positive | NotNegative | Count | BackboneName | Weights | Like

MODEL_PARAMETERS: dict[str, Mapping[str, Accepted]] = {
    "vsepp": {"backbone": BackboneName(), "weights": Weights(), "pooling": OneOf(("mean", "max", "gpo"))},
    "vsrn": {"region_norm": OneOf(("features", "published")), "norm_before_reasoning": Switch()},
    "scan": {
        "cross_attention": OneOf(("t2i", "i2t")),
        "raw_feature_norm": NORMS,
        "aggregation": OneOf(("lse", "mean", "max", "sum")),
        "lambda_softmax": Positive(),
        "lambda_lse": Positive(),
        "negative_slope": NotNegative(),
    },
    "wsabie": {"radius": Positive()},
    "head": {"image_head": HEADS, "caption_head": HEADS, "hidden_size": Count()},
}
"""Model -> parameter -> accepted values; all parameters have defaults.

A backbone is for training from pixels, a pooling for regions instead of global features.
"""


def check_model_parameters(model: str, parameters: Mapping[str, object]) -> None:
    """Refuse a parameter that the model does not have, or a value that it does not accept.

    Raises:
        ConfigError: If a parameter is refused; the message names parameter, rule and value.
    """
    known = MODEL_PARAMETERS[model]
    for name, value in parameters.items():
        if name not in known:
            raise ConfigError(f"model_parameters.{name}: {model} has no such parameter; {_suggest(name, known)}")
        if not known[name].accepts(value):
            raise ConfigError(f"model_parameters.{name} must be {known[name]}, got {value!r:.60}")


def check_identity(side: str, head: str, size: int, embedding_size: int) -> None:
    """Refuse a head that keeps features of other dimensions than the joint space has.

    Args:
        side: ``image`` or ``caption``.
        head: A word of ``HEADS``.
        size: Features of that side.
        embedding_size: Dimensions of the joint space.

    Raises:
        ConfigError: If it is ``identity``, and they differ.
    """
    if head == "identity" and size != embedding_size:
        raise ConfigError(
            f"model_parameters.{side}_head: identity keeps the {size} dimensions of the {side} features, but "
            f"training.embedding_size is {embedding_size}; set it to {size}, or take linear"
        )


def _suggest(name: str, known: Mapping[str, object]) -> str:
    nearest = get_close_matches(name, known, n=1, cutoff=0)
    return f"did you mean {nearest[0]}? It has {', '.join(known)}"
