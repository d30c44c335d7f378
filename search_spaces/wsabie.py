"""Parameters of models: the largest norm of a column of WSABIE's maps, the attention of SCAN, and the kinds of heads.

The published lambdas of SCAN, 4 to 20, lie inside of their ranges.

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024; code kuanghuei/SCAN@053693f
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, section 2. IJCAI 2011
"""

from collections.abc import Mapping
from typing import Any

from search_spaces.space import Bounds, Range, Trial, Values

_HEADS = Values(("linear", "mlp", "residual"))
"""``identity`` is a baseline, and wants features of ``training.embedding_size`` dimensions."""

BOUNDS: Mapping[str, Range | Values] = {
    "radius": Range(0.3, 10.0, log=True),
    "cross_attention": Values(("t2i", "i2t")),
    "raw_feature_norm": Values(("clipped_l2norm", "l2norm", "clipped_l1norm", "softmax", "no_norm")),
    "aggregation": Values(("lse", "mean")),
    "lambda_softmax": Range(2.0, 30.0, log=True),
    "lambda_lse": Range(2.0, 50.0, log=True),
    "image_head": _HEADS,
    "caption_head": _HEADS,
    "hidden_size": Values((128, 256, 512)),
}
"""Default bounds of ``model_parameters``; the values of other parameters must be listed."""

USUAL: Mapping[str, Any] = {
    "radius": 1.0,
    "region_norm": "features",
    "norm_before_reasoning": True,
    "pooling": None,
    "cross_attention": "t2i",
    "raw_feature_norm": "clipped_l2norm",
    "aggregation": "lse",
    "lambda_softmax": 9.0,
    "lambda_lse": 6.0,
    "negative_slope": 0.1,
    "image_head": "linear",
    "caption_head": "linear",
    "hidden_size": None,
}
"""Defaults of the models' constructors, with which a study begins."""


def model_parameters(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the parameters that have bounds, under the names ``model.<name>``."""
    return {name: bound.suggest(trial, f"model.{name}") for name, bound in bounds.items()}
