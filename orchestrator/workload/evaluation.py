"""How well the model of a checkpoint retrieves."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainables.errors import ConfigError


@dataclass(frozen=True)
class Evaluation:
    """Retrieval metrics of a checkpoint's best model.

    Attributes:
        checkpoint: Its directory.
        dataset: Name of the dataset.
        model: Name of the model, and so ``loss``.
        split: Which split was retrieved in.
        images: Of the split.
        folds: So many equal parts of the split were evaluated alone, and averaged.
        metrics: ``i2t_r1`` ... ``rsum``.
        chance_rsum: The rsum of a random ranking of a fold.
    """

    checkpoint: Path
    dataset: str
    model: str
    loss: str
    split: str
    images: int
    folds: int
    metrics: Mapping[str, float]
    chance_rsum: float

    def to_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        about = {name: getattr(self, name) for name in ("dataset", "split", "images", "folds")}
        return {
            "checkpoint": str(self.checkpoint),
            **about,
            "metrics": dict(self.metrics),
            "chance_rsum": self.chance_rsum,
        }


def evaluate(
    checkpoint: str | Path,
    *,
    data_root: str | Path = "data",
    split: Literal["val", "test"] = "test",
    folds: int = 1,
    device: str = "auto",
) -> Evaluation:
    """Evaluate the best model of a checkpoint on val or test.

    Args:
        checkpoint: An ``epoch_NNNN`` directory, or that of a training.
        data_root: Folder that holds the datasets.
        split: Which split to retrieve in.
        folds: Evaluate so many equal parts of the split alone and average them, >= 1.
        device: See ``trainables.devices``.

    Raises:
        UserError: If checkpoint, data or device is refused, or the folds do not divide the images.
    """
    from trainables.chance import chance_rsum
    from trainables.checkpoint import read_config, resolve_checkpoint
    from trainables.data.dataset import open_dataset

    directory = resolve_checkpoint(Path(checkpoint))
    config = read_config(directory)
    data = open_dataset(config, Path(data_root))
    images = len(data.splits[split].image_rows)
    if images % folds:
        raise ConfigError(f"--folds must divide the {images:,} images of {data.name}'s {split} split, got {folds}")
    from trainables.evaluation import evaluate_checkpoint

    metrics = evaluate_checkpoint(directory, data, split, device=device, folds=folds)
    image_of_caption = data.splits[split].image_of_caption
    # A fold has a chance level of its own, and the folds are alike.
    chance = chance_rsum(image_of_caption[image_of_caption < images // folds])
    return Evaluation(directory, data.name, config.model, config.loss, split, images, folds, metrics, chance)
