"""The temperature of SmoothAP.

References:
    [Brown2020] Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval. arXiv:2007.12163
"""

from typing import Any

from search_spaces.space import POSITIVE, Bounds, LossSpace, Range, Trial


def smooth_ap(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the temperature of the sigmoid that smooths the ranks."""
    return {"temperature": bounds["temperature"].suggest(trial, "temperature")}


# 0.01: [Brown2020]. Far below, the sigmoid has no gradient left; far above, it no longer ranks.
SMOOTH_AP = LossSpace(
    suggest=smooth_ap,
    bounds={"temperature": Range(0.001, 0.5, log=True)},
    earlier={"temperature": Range(0.001, 0.2, log=True)},
    published=({"temperature": 0.01},),
    parameters={"temperature": POSITIVE},
)
