"""The table of losses: the class of each, its name in print, and its hyper-parameters (``hyper_parameters``).

Constructors, search spaces, messages, lists and documents read this table; a plug-in's loss joins. The module imports
the standard library alone, because spaces are checked before torch is imported. The ranges of polynomials and of
gradient weights depend on the batch, and are in their spaces.

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
    [Shu2019] Shu et al., Meta-Weight-Net, section 4. arXiv:1902.07379: a hidden layer of 100; its code
        github.com/xjtushujun/meta-weight-net/blob/e85c3a2/MW-Net.py has Adam at 1e-3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainables.hyper_parameters import Entries, HyperParameter, Learnable, declared_parameters
from trainables.parameter_values import NOT_NEGATIVE, NUMBER, POSITIVE, Domain, count_or, is_number, one_of, or_else
from trainables.plugins.in_use import NameTable


@dataclass(frozen=True)
class LossEntry:
    """What is to be known of a loss before torch is imported.

    Attributes:
        made_by: Module of ``trainables.losses`` and class, joined by a dot.
        printed: Name in papers.
        parameters: Hyper-parameter, in the order of the constructor -> its entry.
        takes_cosines: What it takes for granted of similarities, which models without bounds do not keep.
    """

    made_by: str
    printed: str
    parameters: Entries
    takes_cosines: str = ""


def _temperature(default: float, space: tuple[Any, ...], source: str, **rest: Any) -> HyperParameter:
    return HyperParameter(default, POSITIVE, space, source=source, symbol="τ", **rest)


COUNT_OR_ALL = count_or("all")

META_FRACTION = "meta_fraction"
"""The hyper-parameter of a loss with a meta-step: the share of train that the meta-step reads."""

# Similarities lie in [-1, 1]: a margin of 1 asks that even orthogonal negatives be pushed away.
MARGIN = HyperParameter(0.2, NOT_NEGATIVE, (0.05, 1.0), source="VSE++, arXiv:1707.05612")

# A step of log t is the negative of the same step of the log-scale log 1/t. The lower bound 1 of the scale comes from
# open_clip, which clamps the log-scale to [0, log 100].
CLIP_TEMPERATURE = Learnable(initial=0.07, minimum=0.01, maximum=1.0, is_logarithmic=True)

# A weight exp(alpha s) acts like a scale that is larger by alpha for negatives alone: the range has the size of scales.
HARDNESS = HyperParameter(0.0, NOT_NEGATIVE, (0.0, 20.0), is_optional=True)
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

LOSS_TABLE: Mapping[str, LossEntry] = {
    "triplet": LossEntry(
        "triplet.Triplet", "Triplet", {"margin": MARGIN, "negatives": HyperParameter("all", COUNT_OR_ALL)}
    ),
    "triplet_sh": LossEntry("triplet.TripletHardest", "Triplet SH", {"margin": MARGIN}),
    "nt_xent": LossEntry(
        "contrastive.NTXent",
        "NT-Xent",
        {
            "temperature": _temperature(0.1, (0.005, 1.0, "log"), "arXiv:2202.07474", learned=CLIP_TEMPERATURE),
            "hardness": HARDNESS,
            "hardness_mode": HARDNESS_MODE,
        },
    ),
    # Far below 0.01, the sigmoid has no gradient left; far above, it no longer ranks.
    "smooth_ap": LossEntry(
        "ranking.SmoothAP",
        "SmoothAP",
        {"temperature": _temperature(0.01, (0.001, 0.5, "log"), "Smooth-AP, arXiv:2007.12163")},
    ),
    "polynomial_self": LossEntry(
        "polynomial.PolynomialSelf",
        "Polynomial (self)",
        {
            "positive_coefficients": HyperParameter((0.2, -1.0), COEFFICIENTS),
            "negative_coefficients": HyperParameter((0.0, 1.0), COEFFICIENTS),
            "hinge": HyperParameter("joint", one_of("joint", "separate")),
            **POLYNOMIAL,
        },
        "bounds its coefficients for similarities in [-1, 1]; take polynomial_relative, or fix them",
    ),
    "polynomial_relative": LossEntry(
        "polynomial.PolynomialRelative",
        "Polynomial (relative)",
        {"coefficients": HyperParameter((0.2, 1.0), COEFFICIENTS), **POLYNOMIAL},
        "bounds its coefficients for differences of similarities in [-1, 2]; a fixed margin is safe",
    ),
    # 1.0 was published for scores without a bound; cosines differ by 2 at most, so these bounds are lower.
    "warp": LossEntry(
        "ranking.WARP",
        "WARP",
        {
            "margin": HyperParameter(1.0, NOT_NEGATIVE, (0.05, 1.0, "log"), source="WSABIE, IJCAI 2011"),
            "direction": HyperParameter("both", one_of("both", "i2t", "t2i")),
            "rank_weight": HyperParameter("harmonic", one_of(*RANK_WEIGHTS), [*RANK_WEIGHTS], is_optional=True),
            "top": HyperParameter(10, count_or()),
        },
    ),
    # The bias makes up for the share of negatives in a batch, -4.8 for one positive among 128, and for the scale
    # times the cosine of a usual pair.
    "sigmoid": LossEntry(
        "contrastive.Sigmoid",
        "Sigmoid",
        {
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
    ),
    # The range of NT-Xent, which differs from this loss only by the positive in its denominator.
    "decoupled": LossEntry(
        "contrastive.Decoupled",
        "Decoupled contrastive",
        {
            "temperature": _temperature(0.1, (0.005, 0.5, "log"), "arXiv:2110.06848"),
            "hardness": HARDNESS,
            "hardness_mode": HARDNESS_MODE,
        },
    ),
    # The ratio of two sharpnesses matters, hence the logarithms.
    "multi_similarity": LossEntry(
        "pair_weights.MultiSimilarity",
        "Multi-Similarity",
        {
            "alpha": HyperParameter(2.0, POSITIVE, (0.5, 20.0, "log"), source="code of Multi-Similarity"),
            "beta": HyperParameter(40.0, POSITIVE, (5.0, 200.0, "log"), source="code of Multi-Similarity"),
            "base": HyperParameter(0.5, NUMBER, (0.0, 1.0), source="code of Multi-Similarity"),
            "epsilon": HyperParameter(0.1, or_else(NOT_NEGATIVE, None), (0.0, 0.5), source="code of Multi-Similarity"),
        },
    ),
    # Of fine-grained image retrieval; the other tasks of the paper have 0.25 with 128 and 256.
    "circle": LossEntry(
        "pair_weights.Circle",
        "Circle",
        {
            "margin": HyperParameter(0.4, NOT_NEGATIVE, (0.0, 0.8), source="Circle Loss, arXiv:2002.10857"),
            "scale": HyperParameter(80.0, POSITIVE, (4.0, 512.0, "log"), source="Circle Loss, arXiv:2002.10857"),
        },
        "pulls positives to 1 and pushes negatives to 0, as cosines; similarities beyond are pulled back",
    ),
    # The margin has the range of the triplet losses; beyond epsilon 0.2 the mean prevails.
    "triplet_selhn": LossEntry(
        "triplet.TripletSelHN",
        "Triplet SelHN",
        {
            "margin": replace(MARGIN, space=(0.02, 0.8), source="code of RVSEPP"),
            "epsilon": HyperParameter(0.01, NOT_NEGATIVE, (0.001, 0.2, "log"), source="code of RVSEPP"),
        },
    ),
    "gradient_weights": LossEntry(
        "pair_weights.GradientWeights",
        "Gradient weights",
        {
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
        "shapes its weights for similarities in [-1, 1]; a constant pair_weight is safe",
    ),
    "meta_weights": LossEntry(
        "meta_weights.MetaWeights",
        "Meta weights",
        {
            "margin": MARGIN,
            "negatives": HyperParameter(1, COUNT_OR_ALL),
            "hidden_size": HyperParameter(100, count_or(), source="Meta-Weight-Net, arXiv:1902.07379"),
            "meta_learning_rate": HyperParameter(
                1e-3, NOT_NEGATIVE, (1e-4, 1e-2, "log"), source="code of Meta-Weight-Net"
            ),
            META_FRACTION: HyperParameter(
                0.1, Domain("a number above 0, at most 0.5", lambda value: is_number(value) and 0 < value <= 0.5)
            ),
        },
    ),
}
"""Loss -> its entry."""

LOSS_PARAMETERS: NameTable[Entries] = NameTable(
    "losses",
    {name: entry.parameters for name, entry in LOSS_TABLE.items()},
    lambda _, about: declared_parameters(about, of_loss=True),
)
"""Loss -> hyper-parameter, in the order of the constructor -> entry; plug-ins join."""


def symbols() -> dict[str, str]:
    """Return the letters that papers write for hyper-parameters, by name."""
    named = (pair for entries in LOSS_PARAMETERS.values() for pair in entries.items())
    return {name: entry.symbol for name, entry in named if entry.symbol}
