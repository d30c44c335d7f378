"""The temperature of NT-Xent.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 3. arXiv:2202.07474
    [Oord2018] van den Oord et al., Representation Learning with Contrastive Predictive Coding. arXiv:1807.03748
"""

from typing import Any

from search_spaces.space import POSITIVE, Bounds, LossSpace, Range, Trial, or_learned


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
