"""The temperature of the decoupled contrastive loss.

References:
    [Yeh2022] Yeh et al., Decoupled Contrastive Learning. arXiv:2110.06848
"""

from typing import Any

from search_spaces.space import POSITIVE, Bounds, LossSpace, Range, Trial


def decoupled(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the temperature that divides the similarities."""
    return {"temperature": bounds["temperature"].suggest(trial, "temperature")}


# The range of NT-Xent, which differs from this loss only by the positive in its denominator.
DECOUPLED = LossSpace(
    suggest=decoupled,
    bounds={"temperature": Range(0.005, 0.5, log=True)},
    published=({"temperature": 0.1},),
    parameters={"temperature": POSITIVE},
)
