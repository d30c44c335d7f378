"""Parameters of models: the radius lambda of WSABIE, how long a column of its maps may get, and the kinds of heads.

References:
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, section 2. IJCAI 2011
"""

from collections.abc import Mapping
from typing import Any

from search_spaces.space import Bounds, Range, Trial, Values

_HEADS = Values(("linear", "mlp", "residual"))
"""``identity`` is a baseline, and wants features of ``training.embedding_size`` dimensions."""

BOUNDS: Mapping[str, Range | Values] = {
    "radius": Range(0.3, 10.0, log=True),
    "image_head": _HEADS,
    "caption_head": _HEADS,
    "hidden_size": Values((128, 256, 512)),
}
"""What of ``model_parameters`` has a default place to look; other parameters need their values listed."""

USUAL: Mapping[str, Any] = {
    "radius": 1.0,
    "region_norm": "features",
    "norm_before_reasoning": True,
    "pooling": None,
    "image_head": "linear",
    "caption_head": "linear",
    "hidden_size": None,
}
"""What the models' constructors take where an experiment says nothing; a study begins with it."""


def model_parameters(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the parameters that have bounds, under the names ``model.<name>``."""
    return {name: bound.suggest(trial, f"model.{name}") for name, bound in bounds.items()}
