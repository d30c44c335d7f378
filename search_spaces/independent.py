"""The spaces of losses whose parameters do not depend on each other: of ranks, triplets and pairs, and contrastive.

Such is the space of a plug-in's loss or model too, made from the bounds that its decorator declares.

References:
    [Faghri2018] Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives. arXiv:1707.05612
    [Li2023] Li et al., Selectively Hard Negative Mining for Alleviating Gradient Vanishing in Image-Text Matching.
        arXiv:2303.00181
    [SelHNCode] https://github.com/AAA-Zheng/RVSEPP/blob/8ee819e/train.py
    [Wang2019] Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning. arXiv:1904.06627
    [MSCode] https://github.com/msight-tech/research-ms-loss
    [Sun2020] Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization. arXiv:2002.10857
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation. IJCAI 2011
    [Brown2020] Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval. arXiv:2007.12163
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 3. arXiv:2202.07474
    [Oord2018] van den Oord et al., Representation Learning with Contrastive Predictive Coding. arXiv:1807.03748
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2. arXiv:2303.15343
    [Yeh2022] Yeh et al., Decoupled Contrastive Learning. arXiv:2110.06848
    [Lan2025] Lan et al., LLaVE: Large Language and Vision Embedding Models with Hardness-Weighted Contrastive Learning.
        arXiv:2503.04812
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from search_spaces.space import (
    ALL,
    COUNT_OR_ALL,
    NEGATIVES,
    Asked,
    LossSpace,
    Range,
    SpaceError,
    Values,
    by_version,
    count_or,
    or_else,
    with_negatives,
    with_searched,
)
from trainables.parameter_values import LEARNED, NOT_NEGATIVE, NUMBER, POSITIVE, Domain, domain_like, is_number, one_of


def _twins(loss: str, parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the point that is the hardest-negative triplet loss of a margin, see ``LossSpace.twins``."""
    is_hardest = loss == "triplet_sh" and is_number(parameters.get("margin"))
    return ({"margin": parameters["margin"], NEGATIVES: 1},) if is_hardest else ()


def _adapted(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a study; where the number of negatives is searched, one negative is ``triplet_sh``."""
    study_space = with_negatives(by_version(space, asked), asked, ALL)
    if NEGATIVES not in study_space.bounds:
        return study_space
    return replace(study_space, starts=({"margin": 0.2, NEGATIVES: 1},), twins=_twins)


# Similarities lie in [-1, 1]: a margin of 1 asks that even orthogonal negatives be pushed away. 0.2: [Faghri2018].
TRIPLET_SH = LossSpace(
    bounds={"margin": Range(0.05, 1.0)},
    earlier={"margin": Range(0.02, 0.8)},
    published=({"margin": 0.2},),
    parameters={"margin": NOT_NEGATIVE},
)
TRIPLET = replace(TRIPLET_SH, parameters={**TRIPLET_SH.parameters, NEGATIVES: COUNT_OR_ALL}, adapt=_adapted)


# 0.2 and 0.01: [SelHNCode]. The margin has the range of the triplet losses; beyond epsilon 0.2 the mean prevails.
TRIPLET_SELHN = LossSpace(
    bounds={"margin": Range(0.02, 0.8), "epsilon": Range(0.001, 0.2, log=True)},
    published=({"margin": 0.2, "epsilon": 0.01},),
    parameters={"margin": NOT_NEGATIVE, "epsilon": NOT_NEGATIVE},
)


# alpha 2, beta 40, base 0.5, epsilon 0.1: [MSCode]. The ratio of two sharpnesses matters, hence the logarithms.
MULTI_SIMILARITY = LossSpace(
    bounds={
        "alpha": Range(0.5, 20.0, log=True),
        "beta": Range(5.0, 200.0, log=True),
        "base": Range(0.0, 1.0),
        "epsilon": Range(0.0, 0.5),
    },
    published=({"alpha": 2.0, "beta": 40.0, "base": 0.5, "epsilon": 0.1},),
    parameters={"alpha": POSITIVE, "beta": POSITIVE, "base": NUMBER, "epsilon": or_else(NOT_NEGATIVE, None)},
)


# 0.4 and 80: [Sun2020] for fine-grained image retrieval; its other tasks have 0.25 with 128 and 256.
CIRCLE = LossSpace(
    bounds={"margin": Range(0.0, 0.8), "scale": Range(4.0, 512.0, log=True)},
    published=({"margin": 0.4, "scale": 80.0},),
    parameters={"margin": NOT_NEGATIVE, "scale": POSITIVE},
)


RANK_WEIGHTS = ("harmonic", "constant", "top_k")


def _with_choices(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of WARP for a study, which searches the weight of a rank, and a bank, only where asked to."""
    space = with_searched(by_version(space, asked), asked, "rank_weight", Values(RANK_WEIGHTS), ("harmonic",))
    return with_searched(space, asked, "bank", Range(1, 16384, log=True, whole=True), (0,))


# 1.0 was published for scores without a bound [Weston2011]; cosines differ by 2 at most, so these bounds are lower.
WARP = LossSpace(
    bounds={"margin": Range(0.05, 1.0, log=True)},
    published=({"margin": 1.0},),
    parameters={
        "margin": NOT_NEGATIVE,
        "direction": one_of("both", "i2t", "t2i"),
        "rank_weight": one_of(*RANK_WEIGHTS),
        "top": count_or(),
        "bank": count_or(least=0),
    },
    adapt=_with_choices,
)


# 0.01: [Brown2020]. Far below, the sigmoid has no gradient left; far above, it no longer ranks.
SMOOTH_AP = LossSpace(
    bounds={"temperature": Range(0.001, 0.5, log=True)},
    earlier={"temperature": Range(0.001, 0.2, log=True)},
    published=({"temperature": 0.01},),
    parameters={"temperature": POSITIVE},
)


def _with_hardness(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of a contrastive loss for a study, which searches the hardness only where asked to.

    A weight exp(alpha s) acts like a scale that is larger by alpha for negatives alone, so the range has the size of
    usual scales. Published settings have hardness 0.
    """
    return with_searched(by_version(space, asked), asked, "hardness", Range(0.0, 20.0), (0.0,))


def _like_llave(space: LossSpace, asked: Asked) -> LossSpace:
    """Return the space of NT-Xent; where the hardness is searched, settings of [Lan2025] are tried first too."""
    weighed = _with_hardness(space, asked)
    if "hardness" not in weighed.bounds:
        return weighed
    return replace(weighed, published=(*weighed.published, {"temperature": 0.02, "hardness": 9.0}))


HARDNESS = {"hardness": NOT_NEGATIVE, "hardness_mode": one_of("all", "hardest")}


# The ratio of two temperatures matters, hence the logarithm. 0.1 is the value of [Bleeker2022].
NT_XENT = LossSpace(
    bounds={"temperature": Range(0.005, 1.0, log=True)},
    earlier={"temperature": Range(0.005, 0.5, log=True)},
    published=({"temperature": 0.1},),
    parameters={"temperature": or_else(POSITIVE, LEARNED), **HARDNESS},
    adapt=_like_llave,
)


# A scale of 10 and a bias of -10 are the initial values of [Zhai2023], which learns both. The bias makes up for the
# share of negatives in a batch, -4.8 for one positive among 128, and for the scale times the cosine of a usual pair.
SIGMOID = LossSpace(
    bounds={"temperature": Range(0.01, 0.5, log=True), "bias": Range(-20.0, 0.0)},
    published=({"temperature": 0.1, "bias": -10.0},),
    parameters={
        "temperature": or_else(POSITIVE, LEARNED),
        "bias": or_else(NUMBER, LEARNED),
        "hardness": HARDNESS["hardness"],
    },
    adapt=_with_hardness,
)


# The range of NT-Xent, which differs from this loss only by the positive in its denominator.
DECOUPLED = LossSpace(
    bounds={"temperature": Range(0.005, 0.5, log=True)},
    published=({"temperature": 0.1},),
    parameters={"temperature": POSITIVE, **HARDNESS},
    adapt=_with_hardness,
)


def declared_bounds(declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Range | Values]:
    """Return the bounds of parameters declared as ``{low, high, log, whole}`` or ``{values}`` (``SpaceError``)."""
    bounds: dict[str, Range | Values] = {}
    for name, bound in declared.items():
        try:
            values = tuple(tuple(value) if isinstance(value, list) else value for value in bound.get("values", ()))
            bounds[name] = Values(values) if "values" in bound else Range(**bound)
        except SpaceError as error:
            raise SpaceError(f"space[{name!r}]: {error}") from None
    return bounds


def declared_space(declared: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> LossSpace:
    """Return the space of a loss (``SpaceError`` for a bound); a study tries the defaults first, if they are within."""
    bounds = declared_bounds(declared)
    return LossSpace(
        bounds=bounds,
        published=({name: defaults[name] for name in bounds},),
        parameters={name: _domain(default, bounds.get(name)) for name, default in defaults.items()},
    )


def _domain(default: Any, bound: Range | Values | None) -> Domain:
    """Return the domain of a parameter; a number is above 0 if its scale is logarithmic."""
    words = bound.values if isinstance(bound, Values) else ()
    return domain_like(default, words, whole=True, positive=isinstance(bound, Range) and bound.log)
