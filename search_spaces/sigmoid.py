"""The temperature and the bias of the sigmoid loss.

References:
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2. arXiv:2303.15343
"""

from typing import Any

from search_spaces.space import NUMBER, POSITIVE, Bounds, LossSpace, Range, Trial, or_learned


def sigmoid(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the temperature that divides the similarities, and the bias that is added to the quotient."""
    return {name: bounds[name].suggest(trial, name) for name in ("temperature", "bias")}


# A scale of 10 and a bias of -10 are the initial values of [Zhai2023], which learns both. The bias makes up for the
# share of negatives in a batch, -4.8 for one positive among 128, and for the scale times the cosine of a usual pair.
SIGMOID = LossSpace(
    suggest=sigmoid,
    bounds={"temperature": Range(0.01, 0.5, log=True), "bias": Range(-20.0, 0.0)},
    published=({"temperature": 0.1, "bias": -10.0},),
    parameters={"temperature": or_learned(POSITIVE), "bias": or_learned(NUMBER)},
)
