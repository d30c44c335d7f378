"""The input features and the parameters of each model, checked before torch is imported.

A model's parameters are keyword arguments of its constructor. This module has the names and accepted values, so that
wrong ``model_parameters`` of a config are refused before a search starts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeGuard

from trainables.backbone_names import BACKBONES
from trainables.errors import ConfigError
from trainables.plugins.in_use import NameTable

FEATURES: NameTable[str] = NameTable(
    "models",
    {"vsepp": "global", "vsrn": "regions", "scan": "regions", "wsabie": "global", "head": "global"},
    lambda _, about: str(about["features"]),
)
"""Model -> kind of image features that it reads: ``global`` (I, D) or ``regions`` (I, R, D)."""


@dataclass(frozen=True)
class Accepted:
    """The values that a parameter accepts.

    Attributes:
        rule: The values in words that follow "must be".
        accepts: Returns whether a value is accepted.
    """

    rule: str
    accepts: Callable[[object], bool]

    def __str__(self) -> str:
        return self.rule


def one_of(*words: object) -> Accepted:
    """Return the domain of a parameter whose value must be one of the given words."""
    return Accepted(f"one of {', '.join(map(str, words))}", lambda value: value in words)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


NUMBER = Accepted("a finite number", _is_number)
POSITIVE = Accepted("a finite number above 0", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE = Accepted("a finite number of at least 0", lambda value: _is_number(value) and value >= 0)
COUNT = Accepted("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
SWITCH = Accepted("true or false", lambda value: isinstance(value, bool))
WORD = Accepted("a word", lambda value: isinstance(value, str))
NUMBERS = Accepted("a list of numbers", lambda value: isinstance(value, list | tuple) and all(map(_is_number, value)))
BACKBONE = Accepted("a classifier of torchvision (resnet50, resnet152, vgg19, ...)", lambda value: value in BACKBONES)
# Any path is accepted here; a missing file is refused when the weights are read.
WEIGHTS = Accepted(
    "DEFAULT (torchvision's), none (untrained) or a state-dict file",
    lambda value: isinstance(value, str) and bool(value),
)


def _like(default: object, words: Sequence[object]) -> Accepted:
    """Return the domain of a parameter of a plug-in's model.

    Args:
        default: The constructor's default: a number, a word, true or false, or a list of numbers.
        words: Accepted words, if the default is a word; empty for any word.
    """
    if isinstance(default, bool):
        return SWITCH
    if isinstance(default, str):
        return one_of(*words) if words else WORD
    return NUMBERS if isinstance(default, list | tuple) else NUMBER


HEADS = one_of("linear", "mlp", "residual", "identity")
"""Heads, which map features of images or captions into the joint space."""

NORMS = one_of("clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm", "clipped", "softmax", "no_norm")
"""SCAN's norms of the products of regions and words before the softmax."""

MODEL_PARAMETERS: NameTable[Mapping[str, Accepted]] = NameTable(
    "models",
    {
        "vsepp": {"backbone": BACKBONE, "weights": WEIGHTS, "pooling": one_of("mean", "max", "gpo")},
        "vsrn": {"region_norm": one_of("features", "published"), "norm_before_reasoning": SWITCH},
        "scan": {
            "cross_attention": one_of("t2i", "i2t"),
            "raw_feature_norm": NORMS,
            "aggregation": one_of("lse", "mean", "max", "sum"),
            "lambda_softmax": POSITIVE,
            "lambda_lse": POSITIVE,
            "negative_slope": NOT_NEGATIVE,
        },
        "wsabie": {"radius": POSITIVE},
        "head": {"image_head": HEADS, "caption_head": HEADS, "hidden_size": COUNT},
    },
    lambda _, about: {
        parameter: _like(default, about["space"].get(parameter, {}).get("values", ()))
        for parameter, default in about["defaults"].items()
    },
)
"""Model -> parameter -> accepted values; all parameters have defaults.

``backbone`` is for training from pixels, ``pooling`` for regions instead of global features.
"""


def check_model_parameters(model: str, parameters: Mapping[str, object]) -> None:
    """Refuse a parameter that the model does not have, or a value that the parameter does not accept.

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
    """Refuse an ``identity`` head if the features have other dimensions than the joint space.

    Args:
        side: ``image`` or ``caption``.
        head: A word of ``HEADS``.
        size: Dimensions of the features.
        embedding_size: Dimensions of the joint space.

    Raises:
        ConfigError: If the head is ``identity`` and the dimensions differ.
    """
    if head == "identity" and size != embedding_size:
        raise ConfigError(
            f"model_parameters.{side}_head: identity keeps the {size} dimensions of the {side} features, but "
            f"training.embedding_size is {embedding_size}; set it to {size}, or take linear"
        )


def _suggest(name: str, known: Mapping[str, object]) -> str:
    nearest = get_close_matches(name, known, n=1, cutoff=0)
    return f"did you mean {nearest[0]}? It has {', '.join(known)}"
