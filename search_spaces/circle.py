"""The margin and the scale of the circle loss.

References:
    [Sun2020] Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization. arXiv:2002.10857
"""

from typing import Any

from search_spaces.space import NOT_NEGATIVE, POSITIVE, Bounds, LossSpace, Range, Trial


def circle(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the relaxation margin and the scale gamma."""
    return {name: bounds[name].suggest(trial, name) for name in ("margin", "scale")}


# 0.4 and 80: [Sun2020] for fine-grained image retrieval; its other tasks have 0.25 with 128 and 256.
CIRCLE = LossSpace(
    suggest=circle,
    bounds={"margin": Range(0.0, 0.8), "scale": Range(4.0, 512.0, log=True)},
    published=({"margin": 0.4, "scale": 80.0},),
    parameters={"margin": NOT_NEGATIVE, "scale": POSITIVE},
)
