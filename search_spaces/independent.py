"""The spaces of losses whose parameters do not depend on each other: of ranks, triplets and pairs, and contrastive.

Such is the space of a plug-in's loss too.

References:
    [Lan2025] Lan et al., LLaVE: Large Language and Vision Embedding Models with Hardness-Weighted Contrastive Learning.
        arXiv:2503.04812
    [LLaVECode] https://github.com/ronaldseoh/LLaVE/tree/0f0e5a2, a copy of the authors' code: llava/train/train.py has
        a scale of 50, which is 1 / temperature, and the script of README.md alpha 9.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces.space import ALL, NEGATIVES, Asked, LossSpace, bounds_of, with_negatives, with_searched
from trainables.hyper_parameters import Entries
from trainables.parameter_values import is_number


def independent_space(entries: Entries, loss: str = "") -> LossSpace:
    """Return the space of a loss from its entries in the table (``SpaceError`` for a bound of a plug-in).

    A study tries the published values first. A loss of ours may have more to say than its entries.
    """
    searched = {name: entry for name, entry in entries.items() if entry.space is not None and not entry.is_optional}
    space = LossSpace(
        bounds=bounds_of({name: entry.space for name, entry in searched.items()}),
        published=({name: entry.first for name, entry in searched.items()},),
        parameters={name: entry.domain for name, entry in entries.items()},
        adapt=partial(_adapted, {name: entry for name, entry in entries.items() if entry.is_optional}),
    )
    return FURTHER[loss](space) if loss in FURTHER else space


def _adapted(optional: Entries, space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a study, which searches some hyper-parameters only where the study asks for them."""
    for name, bound in bounds_of({name: entry.space for name, entry in optional.items()}).items():
        space = with_searched(space, asked, name, bound, (optional[name].default,))
    return space


def _with_negatives(space: LossSpace) -> LossSpace:
    """Let a study search the number of negatives of the triplet loss: one is the hardest, ``triplet_sh``."""

    def adapted(space: LossSpace, asked: Asked) -> LossSpace:
        study_space = with_negatives(space, asked, ALL)
        if NEGATIVES not in study_space.bounds:
            return study_space
        return replace(study_space, starts=({"margin": 0.2, NEGATIVES: 1},), twins=_twins)

    return replace(space, adapt=adapted)


def _twins(loss: str, parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the point that is the hardest-negative triplet loss of a margin, see ``LossSpace.twins``."""
    is_hardest = loss == "triplet_sh" and is_number(parameters.get("margin"))
    return ({"margin": parameters["margin"], NEGATIVES: 1},) if is_hardest else ()


def _like_llave(space: LossSpace) -> LossSpace:
    """Let a study that searches the hardness of NT-Xent try the settings of [LLaVECode] first too."""

    def adapted(plain: LossSpace, asked: Asked) -> LossSpace:
        weighed = space.adapt(plain, asked)
        if "hardness" not in weighed.bounds:
            return weighed
        return replace(weighed, published=(*weighed.published, {"temperature": 0.02, "hardness": 9.0}))

    return replace(space, adapt=adapted)


FURTHER: Mapping[str, Callable[[LossSpace], LossSpace]] = {"triplet": _with_negatives, "nt_xent": _like_llave}
"""Loss of ours -> what its space has beyond the entries of the table."""
