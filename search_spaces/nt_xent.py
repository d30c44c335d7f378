"""The parameters of the contrastive losses: NT-Xent, sigmoid and decoupled.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 3. arXiv:2202.07474
    [Oord2018] van den Oord et al., Representation Learning with Contrastive Predictive Coding. arXiv:1807.03748
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2. arXiv:2303.15343
    [Yeh2022] Yeh et al., Decoupled Contrastive Learning. arXiv:2110.06848
"""

from typing import Any

from search_spaces.space import NUMBER, POSITIVE, Bounds, LossSpace, Range, Trial, or_learned


def nt_xent(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the temperature that divides the similarities."""
    return {"temperature": bounds["temperature"].suggest(trial, "temperature")}


# The ratio of two temperatures matters, hence the logarithm. 0.1 is the value of [Bleeker2022].
NT_XENT = LossSpace(
    suggest=nt_xent,
    bounds={"temperature": Range(0.005, 1.0, log=True)},
    earlier={"temperature": Range(0.005, 0.5, log=True)},
    published=({"temperature": 0.1},),
    parameters={"temperature": or_learned(POSITIVE)},
)


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
