"""The table of the hyper-parameters of losses: rule, default, searched range, published value, and how one is learned.

Constructors, search spaces, messages, lists and documents read this table; a plug-in's loss has the same entries, made
from its decorator. The module imports the standard library alone, because spaces are checked before torch is imported.
The ranges of polynomials and of gradient weights depend on the batch, and are in their spaces.

References:
    [Faghri2018] Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives. arXiv:1707.05612
    [SelHNCode] https://github.com/AAA-Zheng/RVSEPP/blob/8ee819e/train.py
    [MSCode] https://github.com/msight-tech/research-ms-loss
    [Sun2020] Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization. arXiv:2002.10857
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation. IJCAI 2011
    [Brown2020] Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval. arXiv:2007.12163
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?,
        section 3. arXiv:2202.07474
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training, section 3.2. arXiv:2303.15343: the scale from
        10, the bias from -10, both learned.
    [Yeh2022] Yeh et al., Decoupled Contrastive Learning. arXiv:2110.06848
    [Radford2021] Radford et al., Learning Transferable Visual Models From Natural Language Supervision, section 2.5.
        arXiv:2103.00020: the logarithm of the scale 1/t is learned from log(1/0.07), and the scale is at most 100.
    [GOALCode] https://github.com/microsoft/VSE_Gradient/blob/ba3eb69/Gradient/gradient.py
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainables.parameter_values import (
    LEARNED,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    Domain,
    count_or,
    domain_like,
    is_number,
    one_of,
    or_else,
)
from trainables.plugins.in_use import NameTable


@dataclass(frozen=True)
class Learnable:
    """How a hyper-parameter is learned, from an initial value on.

    Where the optimiser steps the logarithm of the value, ``minimum`` is above 0.
    """

    initial: float
    minimum: float = -math.inf
    maximum: float = math.inf
    is_logarithmic: bool = False

    def raw(self, value: float) -> float:
        """Return the raw number w of a value."""
        return math.log(value) if self.is_logarithmic else value

    def value(self, raw: Any) -> Any:
        """Return the value of each w, a tensor in the shape of ``raw``, which is one."""
        return raw.exp() if self.is_logarithmic else raw

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest w."""
        return self.raw(self.minimum), self.raw(self.maximum)

    def __str__(self) -> str:
        """Return the text that the list of losses shows."""
        of = " on its logarithm" if self.is_logarithmic else ""
        bounded = (self.minimum, self.maximum) != (-math.inf, math.inf)
        return f"from {self.initial:.4g}{of}{f', within [{self.minimum:g}, {self.maximum:g}]' if bounded else ''}"


@dataclass(frozen=True)
class HyperParameter:
    """An entry of the table.

    Attributes:
        default: Value of the constructor.
        rule: The numbers, words or coefficients that it may be.
        space: Searched by default, as a plug-in declares it: ``(low, high)``, ``(low, high, "log")``; ``None`` where it
            keeps its default, or where its bounds depend on the batch.
        published: Published value; ``None`` where it is the default.
        source: Where the published value is from, in a few words.
        earlier: The range of release 0.1, where it was another.
        learned: How it is learned with the model; ``None`` where it cannot be.
        symbol: Letter in print; empty for the name in words.
    """

    default: Any
    rule: Domain
    space: tuple[Any, ...] | None = None
    published: Any = None
    source: str = ""
    earlier: tuple[Any, ...] | None = None
    learned: Learnable | None = None
    symbol: str = ""

    @property
    def domain(self) -> Domain:
        """The values that an experiment may give it: those of the rule, and ``learned`` where it can be."""
        return self.rule if self.learned is None else or_else(self.rule, LEARNED)

    @property
    def first(self) -> Any:
        """The value with which it was published, and with which a search begins."""
        return self.default if self.published is None else self.published


def _temperature(default: float, space: tuple[Any, ...], source: str, **rest: Any) -> HyperParameter:
    return HyperParameter(default, POSITIVE, space, source=source, symbol="τ", **rest)


Entries = Mapping[str, HyperParameter]
"""Hyper-parameter of a loss -> its entry."""

COUNT_OR_ALL = count_or("all")

# Similarities lie in [-1, 1]: a margin of 1 asks that even orthogonal negatives be pushed away.
MARGIN = HyperParameter(0.2, NOT_NEGATIVE, (0.05, 1.0), source="VSE++, arXiv:1707.05612", earlier=(0.02, 0.8))

# A step of log t is the negative of the same step of the log-scale log 1/t. The lower bound 1 of the scale comes from
# open_clip, which clamps the log-scale to [0, log 100].
CLIP_TEMPERATURE = Learnable(initial=0.07, minimum=0.01, maximum=1.0, is_logarithmic=True)

# A weight exp(alpha s) acts like a scale that is larger by alpha for negatives alone. It is searched where asked for.
HARDNESS = HyperParameter(0.0, NOT_NEGATIVE)
HARDNESS_MODE = HyperParameter("all", one_of("all", "hardest"))

GATE = HyperParameter(None, or_else(NOT_NEGATIVE, None))


def _is_coefficients(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(is_number, value))


COEFFICIENTS = Domain("one or more finite numbers, ascending powers", _is_coefficients)

POLYNOMIAL = {
    "gate": GATE,
    "allow_infeasible": HyperParameter(False, one_of(True, False)),
    "negatives": HyperParameter(1, COUNT_OR_ALL),
}

RANK_WEIGHTS = ("harmonic", "constant", "top_k")


def declared_parameters(about: Mapping[str, Any]) -> Entries:
    """Return the entries of a plug-in's loss from the ``defaults`` and the ``space`` that it declares.

    A number is above 0 if its scale is logarithmic.
    """
    entries = {}
    for name, default in about["defaults"].items():
        bound = about["space"].get(name, {})
        rule = domain_like(default, bound.get("values", ()), whole=True, positive=bound.get("log", False))
        entries[name] = HyperParameter(tuple(default) if isinstance(default, list) else default, rule)
    return entries


LOSS_PARAMETERS: NameTable[Entries] = NameTable(
    "losses",
    {
        "triplet": {"margin": MARGIN, "negatives": HyperParameter("all", COUNT_OR_ALL)},
        "triplet_sh": {"margin": MARGIN},
        "nt_xent": {
            "temperature": _temperature(
                0.1, (0.005, 1.0, "log"), "arXiv:2202.07474", earlier=(0.005, 0.5, "log"), learned=CLIP_TEMPERATURE
            ),
            "hardness": HARDNESS,
            "hardness_mode": HARDNESS_MODE,
        },
        # Far below 0.01, the sigmoid has no gradient left; far above, it no longer ranks.
        "smooth_ap": {
            "temperature": _temperature(
                0.01, (0.001, 0.5, "log"), "Smooth-AP, arXiv:2007.12163", earlier=(0.001, 0.2, "log")
            )
        },
        "polynomial_self": {
            "positive_coefficients": HyperParameter((0.2, -1.0), COEFFICIENTS),
            "negative_coefficients": HyperParameter((0.0, 1.0), COEFFICIENTS),
            "hinge": HyperParameter("joint", one_of("joint", "separate")),
            **POLYNOMIAL,
        },
        "polynomial_relative": {"coefficients": HyperParameter((0.2, 1.0), COEFFICIENTS), **POLYNOMIAL},
        # 1.0 was published for scores without a bound; cosines differ by 2 at most, so these bounds are lower.
        "warp": {
            "margin": HyperParameter(1.0, NOT_NEGATIVE, (0.05, 1.0, "log"), source="WSABIE, IJCAI 2011"),
            "direction": HyperParameter("both", one_of("both", "i2t", "t2i")),
            "rank_weight": HyperParameter("harmonic", one_of(*RANK_WEIGHTS)),
            "top": HyperParameter(10, count_or()),
            "bank": HyperParameter(0, count_or(least=0)),
        },
        # The bias makes up for the share of negatives in a batch, -4.8 for one positive among 128, and for the scale
        # times the cosine of a usual pair.
        "sigmoid": {
            "temperature": _temperature(
                0.1,
                (0.01, 0.5, "log"),
                "SigLIP, arXiv:2303.15343",
                learned=Learnable(initial=0.1, minimum=0.01, maximum=1.0, is_logarithmic=True),
            ),
            "bias": HyperParameter(
                -10.0, NUMBER, (-20.0, 0.0), source="SigLIP, arXiv:2303.15343", learned=Learnable(initial=-10.0)
            ),
            "hardness": HARDNESS,
        },
        # The range of NT-Xent, which differs from this loss only by the positive in its denominator.
        "decoupled": {
            "temperature": _temperature(0.1, (0.005, 0.5, "log"), "arXiv:2110.06848"),
            "hardness": HARDNESS,
            "hardness_mode": HARDNESS_MODE,
        },
        # The ratio of two sharpnesses matters, hence the logarithms.
        "multi_similarity": {
            "alpha": HyperParameter(2.0, POSITIVE, (0.5, 20.0, "log"), source="code of Multi-Similarity"),
            "beta": HyperParameter(40.0, POSITIVE, (5.0, 200.0, "log"), source="code of Multi-Similarity"),
            "base": HyperParameter(0.5, NUMBER, (0.0, 1.0), source="code of Multi-Similarity"),
            "epsilon": HyperParameter(0.1, or_else(NOT_NEGATIVE, None), (0.0, 0.5), source="code of Multi-Similarity"),
        },
        # Of fine-grained image retrieval; the other tasks of the paper have 0.25 with 128 and 256.
        "circle": {
            "margin": HyperParameter(0.4, NOT_NEGATIVE, (0.0, 0.8), source="Circle Loss, arXiv:2002.10857"),
            "scale": HyperParameter(80.0, POSITIVE, (4.0, 512.0, "log"), source="Circle Loss, arXiv:2002.10857"),
        },
        # The margin has the range of the triplet losses; beyond epsilon 0.2 the mean prevails.
        "triplet_selhn": {
            "margin": replace(MARGIN, space=(0.02, 0.8), source="code of RVSEPP", earlier=None),
            "epsilon": HyperParameter(0.01, NOT_NEGATIVE, (0.001, 0.2, "log"), source="code of RVSEPP"),
        },
        "gradient_weights": {
            "triplet_weight": HyperParameter("softmax", one_of("constant", "linear", "softmax", "circle")),
            "pair_weight": HyperParameter("sigmoid", one_of("constant", "linear", "sigmoid")),
            "negatives": HyperParameter("hardest", count_or("hardest", "all")),
            "reduction": HyperParameter("sum", one_of("sum", "mean")),
            "scale": HyperParameter(1.0, POSITIVE),
            "margin": HyperParameter(0.2, NOT_NEGATIVE),
            "slope": HyperParameter(0.0, NUMBER),
            "temperature": HyperParameter(0.1, POSITIVE, source="code of GOAL", symbol="τ"),
            "positive_tilt": HyperParameter(1.0, NOT_NEGATIVE),
            "negative_tilt": HyperParameter(1.0, NOT_NEGATIVE),
            "balance": HyperParameter(1.0, POSITIVE),
            "alpha": HyperParameter(2.0, POSITIVE, source="code of GOAL"),
            "beta": HyperParameter(10.0, POSITIVE, source="code of GOAL"),
            "base": HyperParameter(0.5, NUMBER, source="code of GOAL"),
        },
    },
    lambda _, about: declared_parameters(about),
)
"""Loss -> hyper-parameter, in the order of the constructor -> entry; plug-ins join."""


def symbols() -> dict[str, str]:
    """Return the letters that papers write for hyper-parameters, by name."""
    named = (pair for entries in LOSS_PARAMETERS.values() for pair in entries.items())
    return {name: entry.symbol for name, entry in named if entry.symbol}
