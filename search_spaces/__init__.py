"""Search spaces: one file for each family of losses, plain functions of an Optuna-like trial that return parameters.

No module here imports torch, Ray or Optuna: a space is checked before anything heavy is loaded. It works with Optuna's
``FixedTrial``, with a ten-line fake and in a real search.
"""

from search_spaces.gradient_weights import GRADIENT_WEIGHTS
from search_spaces.independent import independent_space
from search_spaces.polynomial import POLYNOMIAL_RELATIVE, POLYNOMIAL_SELF
from search_spaces.space import Bounds, LossSpace, Range, SpaceError, Trial, Values
from search_spaces.study import PastTrial, StudySoFar, StudySpace, Suggestion
from trainables.hyper_parameters import declared_parameters
from trainables.loss_parameters import LOSS_TABLE
from trainables.parameter_values import Domain
from trainables.plugins.in_use import NameTable

CONDITIONAL = {
    "polynomial_self": POLYNOMIAL_SELF,
    "polynomial_relative": POLYNOMIAL_RELATIVE,
    "gradient_weights": GRADIENT_WEIGHTS,
}
"""The spaces that more decides than the table of hyper-parameters."""

SPACES: NameTable[LossSpace] = NameTable(
    "losses",
    {name: CONDITIONAL.get(name) or independent_space(entry.parameters, name) for name, entry in LOSS_TABLE.items()},
    lambda _, about: independent_space(declared_parameters(about, of_loss=True)),
)
"""The space of each loss by the loss's name."""

__all__ = [
    "SPACES",
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
