"""The margin of WARP, the loss of WSABIE.

References:
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation. IJCAI 2011
"""

from typing import Any

from search_spaces.negatives import COUNT
from search_spaces.space import NOT_NEGATIVE, Bounds, LossSpace, Range, Trial, one_of


def warp(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the margin, in units of similarity."""
    return {"margin": bounds["margin"].suggest(trial, "margin")}


# 1.0 was published for scores without a bound [Weston2011]; cosines differ by 2 at most, so these bounds are lower.
WARP = LossSpace(
    suggest=warp,
    bounds={"margin": Range(0.05, 1.0, log=True)},
    published=({"margin": 1.0},),
    parameters={
        "margin": NOT_NEGATIVE,
        "direction": one_of("both", "i2t", "t2i"),
        "rank_weight": one_of("harmonic", "constant", "top_k"),
        "top": COUNT,
    },
)
