"""One training outside a search: a directory that holds its config, its history and its checkpoints."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.experiment.plugins import installed_sources, load_plugins
from orchestrator.experiment.values import NAME, check_folder_name
from orchestrator.experiment.yaml_files import Document, override, read_yaml, validate, yaml_text
from orchestrator.journal.lock import hold
from search_spaces import SPACES
from search_spaces.other_names import suggestion
from trainables.checkpoint import BEST, EpochReport, find_latest, read_file, run_ahead, save_epoch
from trainables.config import TrialConfig, check_metric, idle_rates, similarity_notes
from trainables.data.dataset import (
    Dataset,
    check_batch_size,
    check_modality,
    check_region_counts,
    data_notes,
    open_dataset,
)
from trainables.data.meta_split import check_meta_split
from trainables.errors import CheckpointError, ConfigError, DataError, Mistakes
from trainables.files import make_writable, parse_state, write_whole
from trainables.metric_table import name_parts
from trainables.plugins.in_use import references
from trainables.ranks import chance_rsum

MOST_SETTINGS = 4
"""Most settings in the default name of a training's folder; a digest stands for more."""

MOST_TRAININGS = 10
"""Most trainings that a message lists."""


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


@contextmanager
def _opened(directory: Path, *, resume: bool) -> Iterator[None]:
    """Make the directory and hold it; refuse a directory that cannot be written, or that does not fit ``resume``."""
    if resume and not (directory / "config.yaml").exists():
        there = ", ".join(sorted(path.parent.name for path in directory.parent.glob("*/config.yaml"))[:MOST_TRAININGS])
        named = f"; --name names another: {there}" if there else ""
        raise ConfigError(f"{directory}: holds no training to resume; start it without --resume{named}")
    try:
        make_writable(directory)
        # The config decides which code a resume runs, as the journal of a search does.
        directory.chmod(0o700)
    except OSError as error:
        raise ConfigError(f"--output {directory}: cannot be written: {error.strerror}") from None
    with hold(directory):
        # Asked while the directory is held: a training that was begun a moment ago has its config here by now.
        if (directory / "config.yaml").exists() and not resume:
            raise ConfigError(
                f"{directory}: holds a training already; resume it with --resume or choose another --name"
            )
        yield


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
        name: Name of the training's folder; by default made of dataset, model, loss, settings that differ from the
            defaults, and seed.
        resume: Resume from the last good checkpoint.
        device: See ``trainables.seeding``.
        plugins: Python files or installed distributions, as with ``--plugin``.
        on_report: Called after each epoch.
        on_start: Called once, before the first step.
        on_step: Called after each step with the number of steps that its epoch has had, in the thread that trains.

    Raises:
        UserError: If config, data, folder or checkpoint is refused, or another process trains in the folder.
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
    check_meta_split(config, data)
    check_region_counts(config, data)
    for place, settings in _settings(config):
        check_batch_size(data, settings.training, f"{place}training.batch_size")
    with _opened(directory, resume=resume):
        return _train(config, data, directory, resume, device, on_start, on_step, on_report)


def _train(
    config: TrialConfig,
    data: Dataset,
    directory: Path,
    resume: bool,
    device: str,
    on_start: Callable[[TrainingStart], None],
    on_step: Callable[[int], None],
    on_report: Callable[[EpochReport], None],
) -> TrainingResult:
    """Train in a directory that this process holds; see ``train``."""
    # Imported after the checks above, because torch takes seconds to import.
    from trainables.data.batches import count_steps
    from trainables.data.meta_split import trained_split
    from trainables.seeding import choose_device
    from trainables.trial import run_trial

    chosen = choose_device(device)
    steps = count_steps(trained_split(config, data), config.training, config.seed)
    notes = (*data_notes(config, data), *similarity_notes(config), *idle_rates(config))
    on_start(TrainingStart(directory, str(chosen), steps, notes))
    checkpoint = find_latest(directory) if resume else None
    is_resumed = checkpoint is not None
    text = yaml_text(config.to_dict())
    if checkpoint is None:
        write_whole(directory / "config.yaml", text)
    history = read_epochs(directory) if checkpoint else {}
    try:
        for report in run_ahead(partial(run_trial, config, data, checkpoint, device=device), on_step):
            if is_resumed:
                # Only now is it known that the checkpoint is of this config.
                write_whole(directory / "config.yaml", text)
                is_resumed = False
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
    chance = chance_rsum(val.image_of_caption, val.labels, val.caption_labels)
    return TrainingResult(directory, checkpoint, max(history), best["epoch"], metrics, chance)


def directory_of(config: TrialConfig, output: Path, name: str | None) -> Path:
    """Return the folder of a training.

    Raises:
        ConfigError: If the name is not one that an experiment may have.
    """
    if name is None:
        return output / "train" / _default_name(config)
    try:
        return output / "train" / check_folder_name(name)
    except ValueError as error:
        raise ConfigError(f"--name {error}") from None


def _default_name(config: TrialConfig) -> str:
    """Return a name that differs where the settings do: dataset, model, loss, what differs from the defaults, seed.

    Where the differences are many or have no short form, a digest of them takes their place. The number of epochs and
    the patience are no part of it, because a resumed training may have others.
    """
    ends, apart = {"epochs", "patience"}, {"dataset", "model", "loss", "seed"}
    usual, here = TrialConfig(dataset=config.dataset).to_dict(), config.to_dict()
    differing: dict[str, Any] = {}
    for key in ("loss_parameters", "model_parameters", "training"):
        defaults, values = usual.pop(key), here.pop(key)
        differing |= {name: value for name, value in values.items() if name not in ends and defaults.get(name) != value}
    differing |= {key: value for key, value in here.items() if key not in apart and usual.get(key) != value}
    parts = [f"{name}{value}" for name, value in differing.items()]
    about = "-".join([Path(config.dataset).name, config.model, config.loss])
    name = "-".join([about, *parts, f"seed{config.seed}"])
    is_path = Path(config.dataset).name != config.dataset
    if len(parts) <= MOST_SETTINGS and not is_path and re.fullmatch(NAME, name):
        return name
    text = json.dumps({"dataset": config.dataset, **differing}, sort_keys=True, default=list)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{about}-{digest}-seed{config.seed}").lstrip("._-")


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
    for place, settings in _settings(trial):
        of_place = Mistakes()
        of_place.of(SPACES[trial.loss].check_parameters, settings.loss_parameters)
        mistakes.problems += [f"{place}loss_parameters: {problem} (loss {trial.loss})" for problem in of_place.problems]
    if lines := document.lines(mistakes.problems):
        raise ConfigError(lines)
    needed = references(trial.loss, trial.model)
    if not {*trial.plugins} <= {*needed}:
        raise ConfigError(
            f"plugins: the training was one with {', '.join(trial.plugins)}, but here are "
            f"{', '.join(needed) or 'none'}; give the same with --plugin, or remove the key"
        )
    return replace(trial, plugins=needed)


def _settings(config: TrialConfig) -> list[tuple[str, TrialConfig]]:
    """Return the settings of the first epoch and those after each change of the schedule, with the place of each."""
    changed = [(f"schedule.{number}.", config.at(change.epoch)) for number, change in enumerate(config.schedule)]
    return [("", config.at(1)), *changed]


def _check_loss(document: Document) -> None:
    loss = document.values.get("loss")
    if isinstance(loss, str) and loss not in SPACES:
        text = f"loss: unknown name {loss[:60]!r}; {suggestion(loss, list(SPACES), 'losses')}"
        raise ConfigError(document.lines([text]))
