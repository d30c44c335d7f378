"""The polynomial losses: what they accept. Their coefficients are not searched; an experiment sets them with ``fixed``.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval. TPAMI 2021
"""

from typing import Any

from search_spaces.space import Bounds, Domain, LossSpace, Trial, is_number, one_of

COEFFICIENTS = Domain(
    "one or more finite numbers, ascending powers",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(is_number, value)),
)
GATE = Domain("a number of at least 0, or null", lambda value: value is None or (is_number(value) and value >= 0))


def polynomial(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest nothing: every parameter is fixed, or keeps the loss's default."""
    return {}


POLYNOMIAL_SELF = LossSpace(
    suggest=polynomial,
    bounds={},
    published=({},),
    parameters={
        "positive_coefficients": COEFFICIENTS,
        "negative_coefficients": COEFFICIENTS,
        "hinge": one_of("joint", "separate"),
        "gate": GATE,
        "allow_infeasible": one_of(True, False),
    },
)
POLYNOMIAL_RELATIVE = LossSpace(
    suggest=polynomial,
    bounds={},
    published=({},),
    parameters={"coefficients": COEFFICIENTS, "gate": GATE, "allow_infeasible": one_of(True, False)},
)
