"""The margin of the selective triplet loss, and how near the hardest negative has to be for the mean to be taken.

References:
    [Li2023] Li et al., Selectively Hard Negative Mining for Alleviating Gradient Vanishing in Image-Text Matching.
        arXiv:2303.00181
    [SelHNCode] https://github.com/AAA-Zheng/RVSEPP/blob/8ee819e/train.py
"""

from typing import Any

from search_spaces.space import NOT_NEGATIVE, Bounds, LossSpace, Range, Trial


def triplet_selhn(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the margin and the threshold epsilon."""
    return {name: bounds[name].suggest(trial, name) for name in ("margin", "epsilon")}


# 0.2 and 0.01: [SelHNCode]. The margin has the range of the triplet losses; beyond epsilon 0.2 the mean prevails.
TRIPLET_SELHN = LossSpace(
    suggest=triplet_selhn,
    bounds={"margin": Range(0.02, 0.8), "epsilon": Range(0.001, 0.2, log=True)},
    published=({"margin": 0.2, "epsilon": 0.01},),
    parameters={"margin": NOT_NEGATIVE, "epsilon": NOT_NEGATIVE},
)
