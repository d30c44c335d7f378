"""Settings of the optimiser, which any study can search beside the parameters of its loss.

The default bounds are two decades around the published settings of VSE++, and batch sizes that fit a small GPU.
"""

from collections.abc import Mapping
from typing import Any

from search_spaces.space import Bounds, Range, Trial, Values

BOUNDS: Mapping[str, Range | Values] = {
    "learning_rate": Range(2e-5, 2e-3, log=True),
    "learning_rate_drop_epochs": Range(3, 30, whole=True),
    "learning_rate_drop_factor": Range(0.05, 1.0, log=True),
    "warmup_epochs": Range(0, 5, whole=True),
    "weight_decay": Range(1e-6, 1e-2, log=True),
    "gradient_clip": Range(0.2, 20.0, log=True),
    "batch_size": Values((32, 64, 128, 256)),
    "embedding_size": Values((256, 512, 1024)),
}
"""Settings of ``training`` that can be searched, with their default bounds."""


def optimizer(trial: Trial, bounds: Bounds) -> dict[str, Any]:
    """Suggest the settings that have bounds, under the names ``training.<name>``."""
    return {name: bound.suggest(trial, f"training.{name}") for name, bound in bounds.items()}
