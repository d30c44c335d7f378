"""The generated dataset, small: its pixels and both kinds of features are enough for every model."""

from pathlib import Path
from typing import Any

from trainables.config import TrainingConfig, TrialConfig
from trainables.data.scenes.generate import generate_scenes


def write_scenes(root: Path, images: int = 40) -> Path:
    """Write so many scenes into ``root/scenes`` and return the root."""
    generate_scenes(root / "scenes", images=images, seed=0)
    return root


def pixel_config(**training: Any) -> TrialConfig:
    """Make a config that trains a small untrained backbone along."""
    settings = {"epochs": 1, "batches": "images", "batch_size": 8, "captions_per_image": 2, "learning_rate": 1e-3}
    return TrialConfig(
        dataset="scenes",
        loss="nt_xent",
        model_parameters={"backbone": "shufflenet_v2_x0_5", "weights": "none"},
        training=TrainingConfig(**{**settings, "embedding_size": 16, "word_size": 8, "finetune": True, **training}),
    )
