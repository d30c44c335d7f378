"""The input features and the parameters of each model, and the names of backbones, checked before torch is imported.

A model's parameters are keyword arguments of its constructor. This module has the names and accepted values, so that
wrong ``model_parameters`` of a config are refused before a search starts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from trainables.errors import ConfigError
from trainables.parameter_values import NOT_NEGATIVE, POSITIVE, SWITCH, Domain, domain_like, one_of
from trainables.plugins.in_use import NameTable

# fmt: off
BACKBONES = (
    "alexnet",
    "convnext_base", "convnext_large", "convnext_small", "convnext_tiny",
    "densenet121", "densenet161", "densenet169", "densenet201",
    "efficientnet_b0", "efficientnet_b1", "efficientnet_b2",
    "efficientnet_b3", "efficientnet_b4", "efficientnet_b5", "efficientnet_b6",
    "efficientnet_b7", "efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s",
    "googlenet", "inception_v3", "maxvit_t",
    "mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3",
    "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small",
    "regnet_x_16gf", "regnet_x_1_6gf", "regnet_x_32gf",
    "regnet_x_3_2gf", "regnet_x_400mf", "regnet_x_800mf", "regnet_x_8gf",
    "regnet_y_128gf", "regnet_y_16gf", "regnet_y_1_6gf", "regnet_y_32gf",
    "regnet_y_3_2gf", "regnet_y_400mf", "regnet_y_800mf", "regnet_y_8gf",
    "resnet101", "resnet152", "resnet18", "resnet34", "resnet50",
    "resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d",
    "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0",
    "squeezenet1_0", "squeezenet1_1",
    "swin_b", "swin_s", "swin_t", "swin_v2_b", "swin_v2_s", "swin_v2_t",
    "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
    "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32",
    "wide_resnet101_2", "wide_resnet50_2",
)
# fmt: on
"""Names of all backbones, sorted within a family of networks."""


def check_backbone(name: str) -> None:
    """Refuse a name that torchvision does not have (``ConfigError``)."""
    if name not in BACKBONES:
        nearest = get_close_matches(name, BACKBONES, n=5, cutoff=0)
        raise ConfigError(f"backbone must be a classifier of torchvision, got {name!r}; nearest: {', '.join(nearest)}")


def check_weights(weights: str, key: str) -> None:
    """Refuse weights that are neither a known word nor an existing file (``ConfigError``).

    ``weights`` is ``DEFAULT``, ``none`` or a path; ``key`` is its name in the message.
    """
    if weights not in ("DEFAULT", "none") and not Path(weights).is_file():
        raise ConfigError(f"{key} must be DEFAULT, none or a state-dict file; there is no file {weights}")


COUNT = Domain("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
BACKBONE = Domain("a classifier of torchvision (resnet50, resnet152, vgg19, ...)", lambda value: value in BACKBONES)
# Any path is accepted here; a missing file is refused when the weights are read.
WEIGHTS = Domain(
    "DEFAULT (torchvision's), none (untrained) or a state-dict file",
    lambda value: isinstance(value, str) and bool(value),
)


SHARE = Domain(
    "a number of at least 0 and below 1",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1,
)
"""Share of numbers that dropout drops."""

HEADS = one_of("linear", "mlp", "residual", "identity")
"""Heads, which map features of images or captions into the joint space."""

NORMS = one_of("clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm", "clipped", "softmax", "no_norm")
"""SCAN's norms of the products of regions and words before the softmax."""

GSMN_PARTS = 16
"""Parts of a vector whose cosines are a matching vector of GSMN."""

Inputs = Callable[[Mapping[str, object]], tuple[str, ...]]
"""Function from a model's parameters to the further inputs (``trainables.data.inputs.INPUTS``) that it reads."""


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """What is to be known of a model before torch is imported.

    Attributes:
        features: Kind of image features that it reads: ``global`` (I, D), ``regions`` (I, R, D), or ``none``.
        parameters: Parameter -> accepted values; all parameters have defaults.
        inputs: The further inputs that it reads with some parameters.
        reads_lengths: Whether it reads images, or clips, of different numbers of regions, or frames.
        reads_text_features: Whether it reads features of captions instead of their words.
        compares_sets: Whether it is a ``PairModel``, of whose sets no bank of embeddings is kept.
        is_bounded: Whether its similarities are cosines, or means of such, in [-1, 1].
        parts: Number of equal parts into which it cuts its vectors.
    """

    features: str
    parameters: Mapping[str, Domain]
    inputs: Inputs = lambda chosen: ()
    reads_lengths: bool = False
    reads_text_features: bool = False
    compares_sets: bool = False
    is_bounded: bool = True
    parts: int = 1


def _gsmn_inputs(chosen: Mapping[str, object]) -> tuple[str, ...]:
    reads_parses = chosen.get("graph") == "paper" and chosen.get("edges") == "sparse"
    return ("boxes", "parses") if reads_parses else ("boxes",)


MODEL_TABLE: Mapping[str, ModelEntry] = {
    # ``backbone`` is for training from pixels, ``pooling`` for regions instead of global features.
    "vsepp": ModelEntry(
        features="global",
        parameters={"backbone": BACKBONE, "weights": WEIGHTS, "pooling": one_of("mean", "max", "gpo")},
        reads_lengths=True,
    ),
    "vsrn": ModelEntry(
        features="regions", parameters={"region_norm": one_of("features", "published"), "norm_before_reasoning": SWITCH}
    ),
    "scan": ModelEntry(
        features="regions",
        parameters={
            "cross_attention": one_of("t2i", "i2t"),
            "raw_feature_norm": NORMS,
            "aggregation": one_of("lse", "mean", "max", "sum"),
            "lambda_softmax": POSITIVE,
            "lambda_lse": POSITIVE,
            "negative_slope": NOT_NEGATIVE,
        },
        reads_lengths=True,
        compares_sets=True,
    ),
    "gsmn": ModelEntry(
        features="regions",
        parameters={
            "graph": one_of("published", "paper"),
            "edges": one_of("dense", "sparse"),
            "lambda_softmax": POSITIVE,
        },
        inputs=_gsmn_inputs,
        compares_sets=True,
        is_bounded=False,
        parts=GSMN_PARTS,
    ),
    "hgr": ModelEntry(
        features="regions",
        parameters={"lambda_softmax": POSITIVE, "dropout": SHARE, "graph_dropout": SHARE},
        inputs=lambda chosen: ("role_graphs",),
        reads_lengths=True,
        compares_sets=True,
        parts=2,
    ),
    "ce": ModelEntry(
        features="none",
        parameters={
            "clusters": COUNT,
            "text_clusters": COUNT,
            "gating": one_of("published", "simultaneous"),
            "padding": one_of("masked", "published"),
            "max_tokens": COUNT,
        },
        inputs=lambda chosen: ("experts",),
        compares_sets=True,
    ),
    "wsabie": ModelEntry(features="global", parameters={"radius": POSITIVE}, is_bounded=False),
    "head": ModelEntry(
        features="global",
        parameters={"image_head": HEADS, "caption_head": HEADS, "hidden_size": COUNT},
        reads_text_features=True,
    ),
}
"""Model -> its entry; the class itself is in ``trainables.models.MODELS``."""

FEATURES: NameTable[str] = NameTable(
    "models", {name: entry.features for name, entry in MODEL_TABLE.items()}, lambda _, about: str(about["features"])
)
"""Model -> kind of image features that it reads, of plug-ins too."""

MODEL_PARAMETERS: NameTable[Mapping[str, Domain]] = NameTable(
    "models",
    {name: entry.parameters for name, entry in MODEL_TABLE.items()},
    lambda _, about: {
        parameter: domain_like(default, about["space"].get(parameter, {}).get("values", ()))
        for parameter, default in about["defaults"].items()
    },
)
"""Model -> parameter -> accepted values, of plug-ins too."""

READS_LENGTHS = tuple(name for name, entry in MODEL_TABLE.items() if entry.reads_lengths)
"""The models that read images, or clips, of different numbers of regions, or frames."""

UNBOUNDED = tuple(name for name, entry in MODEL_TABLE.items() if not entry.is_bounded)
"""The models whose similarities may lie outside of [-1, 1]."""


def further_inputs(model: str, parameters: Mapping[str, object]) -> tuple[str, ...]:
    """Return the further inputs that a model reads with some parameters; a plug-in's model reads none."""
    return MODEL_TABLE[model].inputs(parameters) if model in MODEL_TABLE else ()


def check_embedding_size(model: str, embedding_size: int) -> None:
    """Refuse a size of the joint space that a model cannot cut into its parts (``ConfigError``)."""
    parts = MODEL_TABLE[model].parts if model in MODEL_TABLE else 1
    if embedding_size % parts:
        raise ConfigError(
            f"training.embedding_size: {model} cuts each vector into {parts} equal parts, so it must be a multiple of "
            f"{parts}, got {embedding_size}"
        )


def check_model_parameters(model: str, parameters: Mapping[str, object]) -> None:
    """Refuse a parameter that the model does not have, or a value that it does not accept (``ConfigError``)."""
    known = MODEL_PARAMETERS[model]
    for name, value in parameters.items():
        if not known:
            raise ConfigError(f"model_parameters.{name}: {model} has no parameters; leave it out")
        if name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0)[0]
            raise ConfigError(
                f"model_parameters.{name}: {model} has no such parameter; did you mean {nearest}? "
                f"It has {', '.join(known)}"
            )
        if not known[name].accepts(value):
            raise ConfigError(f"model_parameters.{name} must be {known[name].rule}, got {value!r:.60}")


def check_identity(side: str, head: str, size: int, embedding_size: int) -> None:
    """Refuse an ``identity`` head if the features have other dimensions than the joint space (``ConfigError``).

    ``side`` is ``image`` or ``caption``, and ``size`` the dimensions of its features.
    """
    if head == "identity" and size != embedding_size:
        raise ConfigError(
            f"model_parameters.{side}_head: identity keeps the {size} dimensions of the {side} features, but "
            f"training.embedding_size is {embedding_size}; set it to {size}, or take linear"
        )
