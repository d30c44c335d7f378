"""The table of models, known before torch is imported: class, name in print, inputs, and parameters.

A model's parameters are keyword arguments of its constructor. Their entries (``hyper_parameters``) have default, rule
and searched range, so that wrong ``model_parameters`` are refused before a search starts. The default ranges hold the
published lambdas of SCAN, 4 to 20 [Lee2018], and the radius of WSABIE's maps [Weston2011].

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024; code kuanghuei/SCAN@053693f
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, section 2. IJCAI 2011
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from trainables.errors import ConfigError
from trainables.hyper_parameters import Entries, HyperParameter, declared_parameters
from trainables.parameter_values import NOT_NEGATIVE, POSITIVE, SWITCH, Domain, one_of
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

# ``identity`` is a baseline, and wants features of ``training.embedding_size`` dimensions.
HEAD = HyperParameter("linear", one_of("linear", "mlp", "residual", "identity"), ["linear", "mlp", "residual"])
"""Head, which maps features of images or captions into the joint space."""

NORMS = one_of("clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm", "clipped", "softmax", "no_norm")
"""SCAN's norms of the products of regions and words before the softmax."""


def _attention(default: float, source: str) -> HyperParameter:
    """Return the entry of an inverse temperature of attention."""
    return HyperParameter(default, POSITIVE, (2.0, 30.0, "log"), source=source)


ENCODER_KEY = "model_parameters.encoder"
"""Key of the encoder that is trained, for messages."""

ENCODER = Domain(
    "the absolute path of a folder of open_clip or transformers",
    lambda value: isinstance(value, str) and Path(value).is_absolute(),
)

AREA = Domain("a number above 0 and at most 1", lambda value: POSITIVE.accepts(value) and value <= 1)
"""Share of the area of a picture."""

GSMN_PARTS = 16
"""Parts of a vector whose cosines are a matching vector of GSMN."""

Inputs = Callable[[Mapping[str, object]], tuple[str, ...]]
"""Function from a model's parameters to the further inputs (``trainables.data.inputs.INPUTS``) that it reads."""


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """What is to be known of a model before torch is imported.

    Attributes:
        made_by: Module of ``trainables.models`` and class, joined by a dot.
        printed: Name in papers; empty for the name itself.
        features: Kind of image features that it reads: ``global`` (I, D), ``regions`` (I, R, D), or ``none``; or
            ``pixels``.
        parameters: Parameter -> its entry.
        inputs: The further inputs that it reads with some parameters.
        reads_lengths: Whether it reads images, or clips, of different numbers of regions, or frames.
        reads_text_features: Whether it reads features of captions instead of their words.
        compares_sets: Whether it is a ``PairModel``, of whose sets no bank of embeddings is kept.
        has_batch_norms: Whether statistics of a batch normalise its vectors in training.
        is_bounded: Whether its similarities with some parameters are cosines, or means of such, in [-1, 1].
        takes_meta_steps: Whether each of its operations in training has a second gradient, and it has no batch norms.
        parts: Number of equal parts into which it cuts its vectors.
    """

    made_by: str
    printed: str = ""
    features: str
    parameters: Entries
    inputs: Inputs = lambda chosen: ()
    reads_lengths: bool = False
    reads_text_features: bool = False
    compares_sets: bool = False
    has_batch_norms: bool = False
    is_bounded: Callable[[Mapping[str, object]], bool] = lambda chosen: True
    takes_meta_steps: bool = False
    parts: int = 1


def _gsmn_inputs(chosen: Mapping[str, object]) -> tuple[str, ...]:
    reads_parses = chosen.get("graph") == "paper" and chosen.get("edges") == "sparse"
    return ("boxes", "parses") if reads_parses else ("boxes",)


MODEL_TABLE: Mapping[str, ModelEntry] = {
    # ``backbone`` is for training from pixels, ``pooling`` for regions instead of global features.
    "vsepp": ModelEntry(
        made_by="vsepp.VSEPP",
        printed="VSE++",
        features="global",
        parameters={
            "backbone": HyperParameter("resnet50", BACKBONE),
            "weights": HyperParameter("DEFAULT", WEIGHTS),
            "pooling": HyperParameter(None, one_of("mean", "max", "gpo")),
        },
        reads_lengths=True,
    ),
    "vsrn": ModelEntry(
        made_by="vsrn.VSRN",
        printed="VSRN",
        features="regions",
        parameters={
            "region_norm": HyperParameter("features", one_of("features", "published")),
            "norm_before_reasoning": HyperParameter(True, SWITCH),
        },
        has_batch_norms=True,
    ),
    "scan": ModelEntry(
        made_by="scan.SCAN",
        printed="SCAN",
        features="regions",
        parameters={
            "cross_attention": HyperParameter("t2i", one_of("t2i", "i2t"), ["t2i", "i2t"]),
            "raw_feature_norm": HyperParameter(
                "clipped_l2norm", NORMS, ["clipped_l2norm", "l2norm", "clipped_l1norm", "softmax", "no_norm"]
            ),
            "aggregation": HyperParameter("lse", one_of("lse", "mean", "max", "sum"), ["lse", "mean"]),
            "lambda_softmax": _attention(9.0, "SCAN, arXiv:1803.08024, t2i"),
            "lambda_lse": HyperParameter(6.0, POSITIVE, (2.0, 50.0, "log"), source="SCAN, arXiv:1803.08024, t2i"),
            "negative_slope": HyperParameter(0.1, NOT_NEGATIVE, source="code of SCAN"),
        },
        reads_lengths=True,
        compares_sets=True,
        # The logarithm of a sum of B exponentials is above the largest cosine by up to log(B) / lambda_lse.
        is_bounded=lambda chosen: chosen.get("aggregation") in ("mean", "max"),
    ),
    "gsmn": ModelEntry(
        made_by="gsmn.GSMN",
        printed="GSMN",
        features="regions",
        parameters={
            "graph": HyperParameter("published", one_of("published", "paper")),
            "edges": HyperParameter("dense", one_of("dense", "sparse")),
            "lambda_softmax": _attention(20.0, "GSMN, arXiv:2004.00277, Flickr30k"),
        },
        inputs=_gsmn_inputs,
        compares_sets=True,
        is_bounded=lambda chosen: False,
        parts=GSMN_PARTS,
    ),
    "hgr": ModelEntry(
        made_by="hgr.HGR",
        printed="HGR",
        features="regions",
        parameters={
            "lambda_softmax": _attention(4.0, "code of HGR"),
            "dropout": HyperParameter(0.2, SHARE, (0.0, 0.5), source="code of HGR"),
            "graph_dropout": HyperParameter(0.5, SHARE, (0.0, 0.7), source="code of HGR"),
        },
        inputs=lambda chosen: ("role_graphs",),
        reads_lengths=True,
        compares_sets=True,
        parts=2,
    ),
    "ce": ModelEntry(
        made_by="ce.CE",
        printed="CE",
        features="none",
        parameters={
            "clusters": HyperParameter(8, COUNT, [4, 8, 16]),
            "text_clusters": HyperParameter(12, COUNT, [8, 12, 20, 28]),
            "gating": HyperParameter("published", one_of("published", "simultaneous"), ["published", "simultaneous"]),
            "padding": HyperParameter("masked", one_of("masked", "published")),
            "max_tokens": HyperParameter(37, COUNT),
        },
        inputs=lambda chosen: ("experts",),
        compares_sets=True,
        has_batch_norms=True,
    ),
    "wsabie": ModelEntry(
        made_by="wsabie.WSABIE",
        printed="WSABIE",
        features="global",
        parameters={"radius": HyperParameter(1.0, POSITIVE, (0.3, 10.0, "log"))},
        is_bounded=lambda chosen: False,
    ),
    "head": ModelEntry(
        made_by="head.HeadModel",
        features="global",
        parameters={
            "image_head": HEAD,
            "caption_head": HEAD,
            "hidden_size": HyperParameter(None, COUNT, [128, 256, 512]),
        },
        reads_text_features=True,
        takes_meta_steps=True,
    ),
    # Ranks and scales as people set them for CLIP; a share of 0.9 is that of open_clip's training.
    "clip": ModelEntry(
        made_by="clip.CLIP",
        printed="CLIP",
        features="pixels",
        parameters={
            "encoder": HyperParameter(None, ENCODER),
            "trained": HyperParameter("lora", one_of("whole", "blocks", "lora", "none"), published="none"),
            "blocks": HyperParameter(2, COUNT, [1, 2, 4, 8]),
            "rank": HyperParameter(8, COUNT, [2, 4, 8, 16, 32]),
            "alpha": HyperParameter(16.0, POSITIVE, (4.0, 64.0, "log")),
            "crop_area": HyperParameter(1.0, AREA, [0.5, 0.9, 1.0]),
        },
    ),
}
"""Model -> its entry."""

FEATURES: NameTable[str] = NameTable(
    "models", {name: entry.features for name, entry in MODEL_TABLE.items()}, lambda _, about: str(about["features"])
)
"""Model -> kind of image features that it reads, of plug-ins too."""

MODEL_PARAMETERS: NameTable[Entries] = NameTable(
    "models",
    {name: entry.parameters for name, entry in MODEL_TABLE.items()},
    lambda _, about: declared_parameters(about, of_loss=False),
)
"""Model -> parameter -> its entry, of plug-ins too."""


ZERO_SHOT = "zero_shot"
"""In place of a loss, the name of a pretrained model that is not trained."""


def published_parameters(model: str) -> dict[str, object]:
    """Return the parameters of a pretrained model as it was published; empty for a model that is always trained."""
    return {name: entry.published for name, entry in MODEL_PARAMETERS[model].items() if entry.published is not None}


READS_LENGTHS = tuple(name for name, entry in MODEL_TABLE.items() if entry.reads_lengths)
"""The models that read images, or clips, of different numbers of regions, or frames."""


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
        if not known[name].rule.accepts(value):
            raise ConfigError(f"model_parameters.{name} must be {known[name].rule.rule}, got {value!r:.60}")


def check_identity(side: str, head: str, size: int, embedding_size: int) -> None:
    """Refuse an ``identity`` head if the features have other dimensions than the joint space (``ConfigError``).

    ``side`` is ``image`` or ``caption``, and ``size`` the dimensions of its features.
    """
    if head == "identity" and size != embedding_size:
        raise ConfigError(
            f"model_parameters.{side}_head: identity keeps the {size} dimensions of the {side} features, but "
            f"training.embedding_size is {embedding_size}; set it to {size}, or take linear"
        )
