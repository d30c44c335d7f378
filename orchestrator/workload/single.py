"""One training outside a search: a directory that holds its config, its history and its checkpoints."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.experiment.plugins import installed_sources, load_plugins
from orchestrator.experiment.yaml_files import Document, override, read_yaml, validate, yaml_text
from search_spaces import SPACES
from search_spaces.space import suggestion
from trainables.checkpoint import BEST, EpochReport, find_latest, read_file, save_epoch
from trainables.config import TrialConfig, check_metric
from trainables.data.dataset import check_batch_size, check_modality, data_notes, open_dataset
from trainables.errors import CheckpointError, ConfigError, DataError, Mistakes
from trainables.files import make_writable, parse_state, write_whole
from trainables.metric_table import name_parts
from trainables.plugins.in_use import references
from trainables.ranks import chance_rsum


@dataclass(frozen=True)
class TrainingStart:
    """A training that is about to begin, on ``cpu`` or ``cuda:N``; ``steps`` are those of an epoch.

    ``notes`` say what the training does with its data that its config does not say, a sentence each.
    """

    directory: Path
    device: str
    steps: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training.

    Attributes:
        checkpoint: The newest checkpoint; its ``best.pt`` is the model of ``best_epoch``.
        best_epoch: The epoch with the highest selection metric, from 1.
        metrics: Metrics of ``best_epoch``; where its line of the history was removed, the selection metric alone.
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
        return {**vars(self), "directory": str(self.directory), "checkpoint": str(self.checkpoint)}


def read_epochs(directory: Path) -> dict[int, dict[str, float]]:
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


def train(
    config: str | Path | TrialConfig | None = None,
    *,
    overrides: Sequence[str] = (),
    data_root: str | Path = "data",
    output: str | Path = "runs",
    name: str | None = None,
    resume: bool = False,
    device: str = "auto",
    plugins: Sequence[str] = (),
    on_report: Callable[[EpochReport], None] = lambda report: None,
    on_start: Callable[[TrainingStart], None] = lambda start: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> TrainingResult:
    """Train one model to its last epoch.

    Args:
        config: The YAML file of one training, a ``TrialConfig``, or ``None`` if ``overrides`` has all keys.
        overrides: ``KEY=VALUE``, as with ``--set``; not with a ``TrialConfig``, which is whole.
        data_root: Folder that holds the datasets.
        output: Root of all written files; the training gets ``output/train/name``.
        name: Name of the training's folder; by default made of dataset, model, loss and seed.
        resume: Resume from the last good checkpoint.
        device: See ``trainables.seeding``.
        plugins: Python files or installed distributions, as with ``--plugin``.
        on_report: Called after each epoch.
        on_start: Called once, before the first step.
        on_step: Called after each step with the number of steps that its epoch has had.

    Raises:
        UserError: If config, data, folder or checkpoint is refused.
        DivergedError: If the loss or a metric stops being finite; the checkpoint before it stays.
    """
    if isinstance(config, TrialConfig):
        load_plugins(plugins)
    else:
        config = read_config(None if config is None else Path(config), overrides, plugins)
    directory = directory_of(config, Path(output), name)
    config.check_weights()
    check_metric(config.metric)
    data = open_dataset(config, Path(data_root))
    check_modality(config, data)
    check_batch_size(data, config.training)
    _open_directory(directory, resume=resume)
    # Imported after the checks above, because torch takes seconds to import.
    from trainables.cost import count_steps
    from trainables.seeding import choose_device
    from trainables.trial import run_trial

    chosen = choose_device(device)
    steps = count_steps(data.splits["train"], config.training)
    on_start(TrainingStart(directory, str(chosen), steps, tuple(data_notes(config, data))))
    checkpoint = find_latest(directory) if resume else None
    write_whole(directory / "config.yaml", yaml_text(config.to_dict()))
    history = read_epochs(directory) if checkpoint else {}
    try:
        for report in run_trial(config, data, checkpoint, device=device, on_step=on_step):
            history[report.epoch] = dict(report.metrics)
            checkpoint = save_epoch(directory, report)
            write_history(directory, history, report.epoch)
            on_report(report)
    except (ConfigError, DataError):
        # Nothing was begun: the corrected command may have this folder.
        if checkpoint is None:
            (directory / "config.yaml").unlink()
        raise
    if checkpoint is None:
        raise CheckpointError(f"{directory}: has no checkpoint and no epoch left to train")
    best, val = read_file(checkpoint, BEST), data.splits["val"]
    # Without its history, a resumed training knows only the selection metric of an earlier epoch.
    metrics = history.get(best["epoch"], {config.metric: best["value"]})
    chance = chance_rsum(val.image_of_caption, val.labels)
    return TrainingResult(directory, checkpoint, max(history), best["epoch"], metrics, chance)


def directory_of(config: TrialConfig, output: Path, name: str | None) -> Path:
    """Return the folder of a training."""
    default = f"{Path(config.dataset).name}-{config.model}-{config.loss}-seed{config.seed}"
    return output / "train" / (name or default)


def read_config(path: Path | None, overrides: Sequence[str], plugins: Sequence[str] = ()) -> TrialConfig:
    """Read the YAML of one training, apply ``--set``, and check it with the plug-ins that it needs, whose code runs.

    Raises:
        ConfigError: If the config or a plug-in is refused.
    """
    document = Document("--set", {}) if path is None else read_yaml(path, "the file of one training")
    document = override(document, overrides)
    kinds = {"losses": document.values.get("loss"), "models": document.values.get("model")}
    if isinstance(metric := document.values.get("metric"), str):
        kinds["metrics"] = name_parts(metric).measure
    named = {kind: {name} for kind, name in kinds.items() if isinstance(name, str)}
    load_plugins([*plugins, *installed_sources(named, plugins)])
    mistakes = Mistakes()
    mistakes.of(_check_loss, document)
    trial = mistakes.of(validate, TrialConfig, document)
    mistakes.refuse()
    assert trial is not None
    for epoch in (1, *(change.epoch for change in trial.schedule)):
        mistakes.of(SPACES[trial.loss].check_parameters, trial.at(epoch).loss_parameters)
    problems = (f"loss_parameters: {problem} (loss {trial.loss})" for problem in mistakes.problems)
    if lines := document.lines(problems):
        raise ConfigError(lines)
    needed = references(trial.loss, trial.model)
    if not {*trial.plugins} <= {*needed}:
        raise ConfigError(
            f"plugins: the training was one with {', '.join(trial.plugins)}, but here are "
            f"{', '.join(needed) or 'none'}; give the same with --plugin, or remove the key"
        )
    return replace(trial, plugins=needed)


def _check_loss(document: Document) -> None:
    loss = document.values.get("loss")
    if isinstance(loss, str) and loss not in SPACES:
        text = f"loss: unknown name {loss[:60]!r}; {suggestion(loss, list(SPACES), 'losses')}"
        raise ConfigError(document.lines([text]))
