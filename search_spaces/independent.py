"""The spaces of losses whose parameters do not depend on each other: of ranks, triplets and pairs, and contrastive.

Such is the space of a plug-in's loss or model too, made from the bounds that its decorator declares.

References:
    [Lan2025] Lan et al., LLaVE: Large Language and Vision Embedding Models with Hardness-Weighted Contrastive Learning.
        arXiv:2503.04812
    [LLaVECode] https://github.com/ronaldseoh/LLaVE/tree/0f0e5a2, a copy of the authors' code: llava/train/train.py has
        a scale of 50, which is 1 / temperature, and the script of README.md alpha 9.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from search_spaces.space import (
    ALL,
    NEGATIVES,
    Asked,
    LossSpace,
    Range,
    SpaceError,
    Values,
    by_version,
    with_negatives,
    with_searched,
)
from trainables.loss_parameters import LOSS_PARAMETERS, RANK_WEIGHTS, declared_parameters
from trainables.parameter_values import is_number


def _twins(loss: str, parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the point that is the hardest-negative triplet loss of a margin, see ``LossSpace.twins``."""
    is_hardest = loss == "triplet_sh" and is_number(parameters.get("margin"))
    return ({"margin": parameters["margin"], NEGATIVES: 1},) if is_hardest else ()


def _adapted(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a study; where the number of negatives is searched, one negative is ``triplet_sh``."""
    study_space = with_negatives(by_version(space, asked), asked, ALL)
    if NEGATIVES not in study_space.bounds:
        return study_space
    return replace(study_space, starts=({"margin": 0.2, NEGATIVES: 1},), twins=_twins)


def _with_choices(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of WARP for a study, which searches the weight of a rank, and a bank, only where asked to."""
    space = with_searched(by_version(space, asked), asked, "rank_weight", Values(RANK_WEIGHTS), ("harmonic",))
    return with_searched(space, asked, "bank", Range(1, 16384, log=True, whole=True), (0,))


def _with_hardness(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a contrastive loss for a study, which searches the hardness only where asked to.

    A weight exp(alpha s) acts like a scale that is larger by alpha for negatives alone, so the range has the size of
    usual scales. Published settings have hardness 0.
    """
    return with_searched(by_version(space, asked), asked, "hardness", Range(0.0, 20.0), (0.0,))


def _like_llave(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of NT-Xent; where the hardness is searched, settings of [LLaVECode] are tried first too."""
    weighed = _with_hardness(space, asked)
    if "hardness" not in weighed.bounds:
        return weighed
    return replace(weighed, published=(*weighed.published, {"temperature": 0.02, "hardness": 9.0}))


def declared_bounds(declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Range | Values]:
    """Return the bounds of parameters declared as ``{low, high, log, whole}`` or ``{values}`` (``SpaceError``)."""
    bounds: dict[str, Range | Values] = {}
    for name, bound in declared.items():
        try:
            values = tuple(tuple(value) if isinstance(value, list) else value for value in bound.get("values", ()))
            bounds[name] = Values(values) if "values" in bound else Range(**bound)
        except SpaceError as error:
            raise SpaceError(f"space[{name!r}]: {error}") from None
    return bounds


def declared_space(declared: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> LossSpace:
    """Return the space of a loss (``SpaceError`` for a bound); a study tries the defaults first, if they are within."""
    bounds = declared_bounds(declared)
    entries = declared_parameters({"space": declared, "defaults": defaults})
    return LossSpace(
        bounds=bounds,
        published=({name: defaults[name] for name in bounds},),
        parameters={name: entry.domain for name, entry in entries.items()},
    )


def _space(loss: str, **rest: Any) -> LossSpace:
    """Return the space of one of our losses from the table of hyper-parameters."""
    entries = LOSS_PARAMETERS[loss]
    searched = {name: entry for name, entry in entries.items() if entry.space is not None}
    return LossSpace(
        bounds=_ranges({name: entry.space for name, entry in searched.items()}),
        earlier=_ranges({name: entry.earlier for name, entry in searched.items()}),
        published=({name: entry.first for name, entry in searched.items()},),
        parameters={name: entry.domain for name, entry in entries.items()},
        **rest,
    )


def _ranges(spaces: Mapping[str, tuple[Any, ...] | None]) -> dict[str, Range | Values]:
    known = {name: space for name, space in spaces.items() if space is not None}
    return {name: Range(space[0], space[1], "log" in space, "int" in space) for name, space in known.items()}


TRIPLET = _space("triplet", adapt=_adapted)
TRIPLET_SH = _space("triplet_sh")
TRIPLET_SELHN = _space("triplet_selhn")
MULTI_SIMILARITY = _space("multi_similarity")
CIRCLE = _space("circle")
WARP = _space("warp", adapt=_with_choices)
SMOOTH_AP = _space("smooth_ap")
NT_XENT = _space("nt_xent", adapt=_like_llave)
SIGMOID = _space("sigmoid", adapt=_with_hardness)
DECOUPLED = _space("decoupled", adapt=_with_hardness)
