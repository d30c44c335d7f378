"""Search spaces: one file for each family of losses, plain functions of an Optuna-like trial that return parameters.

No module here imports torch, Ray or Optuna: a space is checked before anything heavy is loaded. It works with Optuna's
``FixedTrial``, with a ten-line fake and in a real search.
"""

from search_spaces.gradient_weights import GRADIENT_WEIGHTS
from search_spaces.independent import (
    CIRCLE,
    DECOUPLED,
    MULTI_SIMILARITY,
    NT_XENT,
    SIGMOID,
    SMOOTH_AP,
    TRIPLET,
    TRIPLET_SELHN,
    TRIPLET_SH,
    WARP,
    declared_space,
)
from search_spaces.polynomial import POLYNOMIAL_RELATIVE, POLYNOMIAL_SELF
from search_spaces.space import Bounds, LossSpace, Range, SpaceError, Trial, Values
from search_spaces.study import PastTrial, StudySoFar, StudySpace, Suggestion
from trainables.parameter_values import Domain
from trainables.plugins.in_use import NameTable

SPACES: NameTable[LossSpace] = NameTable(
    "losses",
    {
        "triplet": TRIPLET,
        "triplet_sh": TRIPLET_SH,
        "nt_xent": NT_XENT,
        "smooth_ap": SMOOTH_AP,
        "polynomial_self": POLYNOMIAL_SELF,
        "polynomial_relative": POLYNOMIAL_RELATIVE,
        "warp": WARP,
        "sigmoid": SIGMOID,
        "decoupled": DECOUPLED,
        "multi_similarity": MULTI_SIMILARITY,
        "circle": CIRCLE,
        "triplet_selhn": TRIPLET_SELHN,
        "gradient_weights": GRADIENT_WEIGHTS,
    },
    lambda _, about: declared_space(about["space"], about["defaults"]),
)
"""The space of each loss by the loss's name."""

TAKES_COSINES = {
    "polynomial_self": "bounds its coefficients for similarities in [-1, 1]; take polynomial_relative, or fix them",
    "polynomial_relative": "bounds its coefficients for differences of similarities in [-1, 2]; a fixed margin is safe",
    "gradient_weights": "shapes its weights for similarities in [-1, 1]; a constant pair_weight is safe",
    "circle": "pulls positives to 1 and pushes negatives to 0, as cosines; similarities beyond are pulled back",
}
"""Loss -> what it takes for granted of similarities, which models without bounds do not keep."""

__all__ = [
    "SPACES",
    "TAKES_COSINES",
    "Bounds",
    "Domain",
    "LossSpace",
    "PastTrial",
    "Range",
    "SpaceError",
    "StudySoFar",
    "StudySpace",
    "Suggestion",
    "Trial",
    "Values",
]
