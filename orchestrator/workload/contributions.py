"""COCOS statistics of a checkpoint: one pass over the train split, in the batches of its training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainables.cocos import Convention, Spread


@dataclass(frozen=True)
class CheckpointContributions:
    """Measured COCOS counts, with the model and data that they were measured on.

    Attributes:
        statistics: Mean and standard deviation (ddof 0) of each counter over the batches, including
            the last, smaller batch.
    """

    checkpoint: Path
    dataset: str
    model: str
    loss: str
    epsilon: float
    convention: str
    statistics: "Mapping[str, Spread]"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``--json``."""
        statistics = {name: {"mean": spread.mean, "std": spread.std} for name, spread in self.statistics.items()}
        return {**vars(self), "checkpoint": str(self.checkpoint), "statistics": statistics}


def measure_checkpoint(
    path: Path, data_root: Path, *, epsilon: float, convention: "Convention", device: str
) -> CheckpointContributions:
    """Measure the best model of a checkpoint.

    Raises:
        UserError: If checkpoint, data, device, epsilon or convention is refused.
    """
    from trainables.checkpoint import BEST, read_config, read_file, resolve_checkpoint
    from trainables.config import LEARNED
    from trainables.data.dataset import open_dataset

    directory = resolve_checkpoint(path)
    config = read_config(directory)
    data = open_dataset(config, data_root)
    from trainables.data.batches import epoch_batches
    from trainables.data.resident import ResidentSplit
    from trainables.devices import choose_device
    from trainables.evaluation import load_best, measure_contributions
    from trainables.losses import build_loss
    from trainables.losses.learned import with_values
    from trainables.seeding import generator

    model, _ = load_best(directory, data)
    where = choose_device(device)
    split = ResidentSplit(data.splits["train"], where, model.crop_size)
    best = read_file(directory, BEST)
    now = config.at(best["epoch"])
    # Learned hyper-parameters have the values of the best model; a checkpoint without any lacks the key.
    loss = with_values(build_loss(now.loss, **now.loss_parameters), best.get(LEARNED, {}))
    batches = epoch_batches(split, now.training, generator(config.seed, "cocos"))
    statistics = measure_contributions(model.to(where), loss, batches, epsilon=epsilon, convention=convention)
    return CheckpointContributions(directory, data.name, config.model, config.loss, epsilon, convention, statistics)
