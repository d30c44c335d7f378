"""The triplet weights and pair weights of ``gradient_weights`` as one conditional space.

Two choices, ``triplet_weight`` and ``pair_weight``, decide which numbers exist. The loss is a sum over the pairs of a
batch. So the space contains ``triplet_sh`` at a scale of 1, and ``nt_xent``, which is half a mean over each direction's
queries, at a scale of 1 / (2 pairs temperature). Both are tried first.

References:
    [Xuan2023] Xuan and Chen, Dissecting Deep Metric Learning Losses for Image-Text Retrieval (GOAL). arXiv:2210.13188
    [GOALCode] https://github.com/microsoft/VSE_Gradient/blob/ba3eb69/Gradient/gradient.py
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces.space import Asked, Bounds, Choose, LossSpace, Range, Values
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.parameter_values import is_number

CONDITIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "triplet_weight": {
        "constant": ("margin",),
        "linear": ("margin", "slope"),
        "softmax": ("temperature",),
        "circle": ("temperature",),
    },
    "pair_weight": {"constant": (), "linear": ("positive_tilt", "negative_tilt"), "sigmoid": ("alpha", "beta", "base")},
}
"""Choice -> value -> the numbers that exist at this value."""

# The defaults of [GOALCode]; temperature is 1 / tau.
PUBLISHED = {
    name: LOSS_PARAMETERS["gradient_weights"][name].first
    for name in ("negatives", *CONDITIONS, "scale", "temperature", "alpha", "beta", "base")
}


def gradient_weights(choose: Choose, bounds: Bounds) -> dict[str, Any]:
    """Suggest the two choices, and the numbers that exist at these choices."""
    chosen = {name: choose(name) for name in ("negatives", *CONDITIONS, "scale")}
    names = [name for choice, numbers in CONDITIONS.items() for name in numbers[str(chosen[choice])]]
    return chosen | {name: choose(name) for name in names}


def _relevant(bounds: Bounds, fixed: Mapping[str, Any]) -> Bounds:
    """Drop the numbers that exist at no listed choice."""
    kept = {"negatives", "scale", *CONDITIONS}
    for choice, numbers in CONDITIONS.items():
        for value in bounds[choice].ends():
            kept.update(numbers[str(value)])
    return {name: bound for name, bound in bounds.items() if name in kept}


def _bounds(pairs: int) -> dict[str, Range | Values]:
    """Return the default bounds for batches of a number of pairs."""
    return {
        "negatives": Values(("hardest", "all")),
        "triplet_weight": Values(tuple(CONDITIONS["triplet_weight"])),
        "pair_weight": Values(tuple(CONDITIONS["pair_weight"])),
        "scale": Range(0.128 / pairs, 8.0, log=True),
        "margin": Range(0.02, 0.8),
        "slope": Range(0.0, 8.0),
        "temperature": Range(0.005, 0.5, log=True),
        "positive_tilt": Range(0.0, 1.0),
        "negative_tilt": Range(0.0, 1.0),
        "alpha": Range(0.5, 20.0, log=True),
        "beta": Range(2.0, 100.0, log=True),
        "base": Range(0.0, 1.0),
    }


def _triplet(margin: float, negatives: str | int = "hardest") -> dict[str, Any]:
    words = {"negatives": negatives, "triplet_weight": "constant", "pair_weight": "constant"}
    return {**words, "scale": 1.0, "margin": margin}


def _nt_xent(temperature: float, pairs: int) -> dict[str, Any]:
    words = {"negatives": "all", "triplet_weight": "softmax", "pair_weight": "constant"}
    return {**words, "scale": 1 / (2 * pairs * temperature), "temperature": temperature}


def _twins(asked: Asked, loss: str, parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the point with the gradient of another loss, in batches with one positive a query.

    None is known where the loss is a mean, or the balance is fixed to another number than 1.
    """
    if asked.fixed.get("reduction") == "mean" or asked.fixed.get("balance", 1) != 1:
        return ()
    if loss in ("triplet", "triplet_sh") and is_number(parameters.get("margin")):
        # The hardest negative is a word in the default space, and the number 1 in a range of numbers.
        count = parameters.get("negatives", "all") if loss == "triplet" else 1
        return tuple(_triplet(parameters["margin"], value) for value in (("hardest", 1) if count == 1 else (count,)))
    if loss == "nt_xent" and is_number(parameters.get("temperature")):
        return (_nt_xent(parameters["temperature"], asked.pairs),)
    return ()


def _adapted(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space for the pairs of a study's batches."""
    space = replace(space, twins=partial(_twins, asked))
    if asked.fixed.get("reduction") == "mean":
        return replace(space, bounds={**_bounds(1), "scale": Range(0.1, 200.0, log=True)})
    return replace(
        space, bounds=_bounds(asked.pairs), starts=(_triplet(0.2), _triplet(0.2, 1), _nt_xent(0.1, asked.pairs))
    )


_BARE = LossSpace(
    assemble=gradient_weights,
    bounds={},
    published=(PUBLISHED, {**PUBLISHED, "negatives": 1}),
    parameters={name: entry.domain for name, entry in LOSS_PARAMETERS["gradient_weights"].items()},
    relevant=_relevant,
    adapt=_adapted,
    switches=tuple(CONDITIONS),
)
GRADIENT_WEIGHTS = _adapted(_BARE, Asked())
