"""One training outside a search: a directory that holds its config, its history and its checkpoints."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import CheckpointError, ConfigError
from trainables.files import make_writable, parse_state, write_whole


@dataclass(frozen=True)
class TrainingStart:
    """A training that is about to begin, and its device.

    Attributes:
        directory: Directory of its files.
        device: ``cpu`` or ``cuda:N``.
        steps: Steps of an epoch.
        notes: What the training does with its data that its config does not say, a sentence each.
    """

    directory: Path
    device: str
    steps: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training.

    Attributes:
        directory: Directory of its files.
        checkpoint: The newest checkpoint; its ``best.pt`` is the model of ``best_epoch``.
        epochs: Epochs trained in all.
        best_epoch: The epoch with the highest selection metric, from 1.
        metrics: Metrics of the epoch.
        chance_rsum: The rsum that a random ranking reaches on the val split, in [0, 600].
    """

    directory: Path
    checkpoint: Path
    epochs: int
    best_epoch: int
    metrics: dict[str, float]
    chance_rsum: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``--json``."""
        paths = {"directory": str(self.directory), "checkpoint": str(self.checkpoint)}
        best = {"best_epoch": self.best_epoch, "metrics": self.metrics}
        return {**paths, "epochs": self.epochs, **best, "chance_rsum": self.chance_rsum}


def train(
    config: TrialConfig,
    directory: Path,
    *,
    data_root: Path,
    device: str = "auto",
    resume: bool = False,
    on_report: Callable[[EpochReport], None],
    on_start: Callable[[TrainingStart], None] = lambda start: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> TrainingResult:
    """Train to the last epoch, with a checkpoint and a line of history an epoch.

    ``on_start`` is called once, after all checks; ``on_step`` after each step with the number of steps
    that its epoch has had.

    Raises:
        UserError: If config, data, directory or checkpoint is refused.
        DivergedError: If the loss or a metric stops being finite; the checkpoint before it stays.
    """
    from trainables.data.dataset import check_batch_size, check_modality, data_notes, open_dataset
    from trainables.ranks import chance_rsum

    config.check_weights()
    data = open_dataset(config, data_root)
    check_modality(config, data)
    check_batch_size(data, config.training)
    _open_directory(directory, resume=resume)
    # Imported after the checks above, because torch takes seconds to import.
    from trainables.checkpoint import find_latest, save_epoch
    from trainables.cost import count_steps
    from trainables.seeding import choose_device
    from trainables.trial import run_trial

    chosen = choose_device(device)
    steps = count_steps(data.splits["train"], config.training)
    on_start(TrainingStart(directory, str(chosen), steps, tuple(data_notes(config, data))))
    checkpoint = find_latest(directory) if resume else None
    write_whole(directory / "config.yaml", yaml.safe_dump(config.to_dict(), sort_keys=False))
    history = read_history(directory) if checkpoint else {}
    for report in run_trial(config, data, checkpoint, device=device, on_step=on_step):
        history[report.epoch] = dict(report.metrics)
        checkpoint = save_epoch(directory, report)
        write_history(directory, history, report.epoch)
        on_report(report)
    if checkpoint is None:
        raise CheckpointError(f"{directory}: has no checkpoint and no epoch left to train")
    epochs = max(history)
    best_epoch = max(history, key=lambda epoch: (history[epoch][config.metric], -epoch))
    val = data.splits["val"]
    chance = chance_rsum(val.image_of_caption, val.labels)
    return TrainingResult(directory, checkpoint, epochs, best_epoch, history[best_epoch], chance)


def read_history(directory: Path) -> dict[int, dict[str, float]]:
    """Return the metrics of each epoch that the directory's history holds."""
    path = directory / "history.jsonl"
    if not path.exists():
        return {}
    try:
        rows = [parse_state(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {row["epoch"]: row["metrics"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: damaged ({error}); remove it to resume without the history") from None


def write_history(directory: Path, history: dict[int, dict[str, float]], last: int) -> None:
    """Write the history up to an epoch; later epochs, which a crash left, are dropped."""
    rows = ({"epoch": epoch, "metrics": metrics} for epoch, metrics in sorted(history.items()) if epoch <= last)
    write_whole(directory / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def _open_directory(directory: Path, *, resume: bool) -> None:
    """Make the directory; refuse a directory that cannot be written, or that does not fit ``resume``."""
    exists = (directory / "config.yaml").exists()
    if exists and not resume:
        raise ConfigError(f"{directory}: holds a training already; resume it with --resume or choose another --name")
    if resume and not exists:
        raise ConfigError(f"{directory}: holds no training to resume; start it without --resume")
    try:
        make_writable(directory)
    except OSError as error:
        raise ConfigError(f"--output {directory}: cannot be written: {error.strerror}") from None
