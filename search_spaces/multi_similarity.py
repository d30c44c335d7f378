"""The two sharpnesses, the base and the mining margin of the Multi-Similarity loss.

References:
    [Wang2019] Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning. arXiv:1904.06627
    [MSCode] https://github.com/msight-tech/research-ms-loss
"""

from typing import Any

from search_spaces.space import NOT_NEGATIVE, NUMBER, POSITIVE, Bounds, LossSpace, Range, Trial, or_null


def multi_similarity(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest all four parameters."""
    return {name: bounds[name].suggest(trial, name) for name in ("alpha", "beta", "base", "epsilon")}


# alpha 2, beta 40, base 0.5, epsilon 0.1: [MSCode]. The ratio of two sharpnesses matters, hence the logarithms.
MULTI_SIMILARITY = LossSpace(
    suggest=multi_similarity,
    bounds={
        "alpha": Range(0.5, 20.0, log=True),
        "beta": Range(5.0, 200.0, log=True),
        "base": Range(0.0, 1.0),
        "epsilon": Range(0.0, 0.5),
    },
    published=({"alpha": 2.0, "beta": 40.0, "base": 0.5, "epsilon": 0.1},),
    parameters={"alpha": POSITIVE, "beta": POSITIVE, "base": NUMBER, "epsilon": or_null(NOT_NEGATIVE)},
)
