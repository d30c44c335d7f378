"""The margin of the triplet losses, and the number of hardest negatives where a study searches it.

References:
    [Faghri2018] Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives. arXiv:1707.05612
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from search_spaces.negatives import ALL, COUNT_OR_ALL, NAME, with_negatives
from search_spaces.space import NOT_NEGATIVE, Asked, Bounds, LossSpace, Range, Trial, by_version, is_number


def triplet(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the margin, in units of cosine similarity."""
    return {"margin": bounds["margin"].suggest(trial, "margin")}


def _twins(loss: str, parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the point that is the hardest-negative triplet loss of a margin, see ``LossSpace.twins``."""
    is_hardest = loss == "triplet_sh" and is_number(parameters.get("margin"))
    return ({"margin": parameters["margin"], NAME: 1},) if is_hardest else ()


def _adapted(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a study; where the number of negatives is searched, one negative is ``triplet_sh``."""
    found = with_negatives(by_version(space, asked), asked, ALL)
    if NAME not in found.bounds:
        return found
    return replace(found, starts=({"margin": 0.2, NAME: 1},), twins=_twins)


# Similarities lie in [-1, 1]: a margin of 1 asks that even orthogonal negatives be pushed away. 0.2: [Faghri2018].
TRIPLET_SH = LossSpace(
    suggest=triplet,
    bounds={"margin": Range(0.05, 1.0)},
    earlier={"margin": Range(0.02, 0.8)},
    published=({"margin": 0.2},),
    parameters={"margin": NOT_NEGATIVE},
)
TRIPLET = replace(TRIPLET_SH, parameters={**TRIPLET_SH.parameters, NAME: COUNT_OR_ALL}, adapt=_adapted)
