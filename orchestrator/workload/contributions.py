"""COCOS statistics of a checkpoint: one pass over the train split, in the batches of its training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        curve: Epsilon -> the same of the counters that depend on epsilon; empty unless asked for.
    """

    checkpoint: Path
    dataset: str
    model: str
    loss: str
    epsilon: float
    convention: str
    statistics: "Mapping[str, Spread]"
    curve: "Mapping[float, Mapping[str, Spread]]" = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``--json``; ``curve`` is a list of counters with their ``epsilon``."""
        curve = [{"epsilon": epsilon, "statistics": _plain(counters)} for epsilon, counters in self.curve.items()]
        own = {name: value for name, value in vars(self).items() if name != "curve"}
        values = {**own, "checkpoint": str(self.checkpoint), "statistics": _plain(self.statistics)}
        return values | ({"curve": curve} if curve else {})


def _plain(counters: "Mapping[str, Spread]") -> dict[str, dict[str, float]]:
    return {name: {"mean": spread.mean, "std": spread.std} for name, spread in counters.items()}


def measure_checkpoint(
    path: Path,
    data_root: Path,
    *,
    epsilon: float,
    convention: "Convention",
    device: str,
    curve: Sequence[float] = (),
) -> CheckpointContributions:
    """Measure the best model of a checkpoint, in one pass for all values of epsilon.

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
    found = measure_contributions(model.to(where), loss, batches, epsilon=epsilon, convention=convention, curve=curve)
    statistics = {name: spread for name, spread in found.items() if "@" not in name}
    at = {
        value: {name.removesuffix(end): spread for name, spread in found.items() if name.endswith(end)}
        for value in curve
        for end in [f"@{value:g}"]
    }
    return CheckpointContributions(directory, data.name, config.model, config.loss, epsilon, convention, statistics, at)
