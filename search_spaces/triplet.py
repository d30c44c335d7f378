"""The margin of the triplet losses.

References:
    [Faghri2018] Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives. arXiv:1707.05612
"""

from typing import Any

from search_spaces.space import NOT_NEGATIVE, Bounds, LossSpace, Range, Trial


def triplet(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the margin, in units of cosine similarity."""
    return {"margin": bounds["margin"].suggest(trial, "margin")}


# Similarities lie in [-1, 1]: a margin of 1 asks that even orthogonal negatives be pushed away. 0.2: [Faghri2018].
TRIPLET = LossSpace(
    suggest=triplet,
    bounds={"margin": Range(0.05, 1.0)},
    earlier={"margin": Range(0.02, 0.8)},
    published=({"margin": 0.2},),
    parameters={"margin": NOT_NEGATIVE},
)
TRIPLET_SH = TRIPLET
