"""One training from Python; ``orchestrator train`` runs the same function."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from orchestrator.experiment.plugins import installed_sources, load_plugins
from orchestrator.experiment.problems import Mistake
from orchestrator.experiment.yaml_files import STRICT, Document, override, read_kind, validate
from orchestrator.workload import single
from orchestrator.workload.single import TrainingResult, TrainingStart
from search_spaces import SPACES
from search_spaces.space import suggestion
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import ConfigError, Mistakes
from trainables.plugins.in_use import references


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
    return single.train(
        config,
        directory_of(config, Path(output), name),
        data_root=Path(data_root),
        device=device,
        resume=resume,
        on_report=on_report,
        on_start=on_start,
        on_step=on_step,
    )


def directory_of(config: TrialConfig, output: Path, name: str | None) -> Path:
    """Return the folder of a training."""
    return output / "train" / (name or default_name(config))


class _TrialFile(BaseModel):
    # Built when a file of one training is read: most commands read none.
    model_config = ConfigDict(**STRICT, defer_build=True)
    trial: TrialConfig


def read_config(path: Path | None, overrides: Sequence[str], plugins: Sequence[str] = ()) -> TrialConfig:
    """Read the YAML of one training, apply ``--set``, and check it with the plug-ins that it needs, whose code runs.

    Raises:
        ConfigError: If the config or a plug-in is refused.
    """
    document = Document("--set", {}) if path is None else read_kind(path, "the file of one training")
    document = override(document, overrides)
    kinds = {"losses": document.values.get("loss"), "models": document.values.get("model")}
    named = {kind: {name} for kind, name in kinds.items() if isinstance(name, str)}
    load_plugins([*plugins, *installed_sources(named, plugins)])
    mistakes = Mistakes()
    mistakes.of(_check_loss, document)
    file = mistakes.of(validate, _TrialFile, document, inside="trial")
    mistakes.refuse()
    assert file is not None
    trial = file.trial
    for epoch in (1, *(change.epoch for change in trial.schedule)):
        mistakes.of(SPACES[trial.loss].check_parameters, trial.at(epoch).loss_parameters)
    found = (f"loss_parameters: {problem} (loss {trial.loss})" for problem in mistakes.problems)
    if lines := document.lines(Mistake(("loss_parameters",), text) for text in found):
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
        raise ConfigError(document.lines([Mistake(("loss",), text)]))


def default_name(config: TrialConfig) -> str:
    """Return the default name of a training's folder."""
    return f"{Path(config.dataset).name}-{config.model}-{config.loss}-seed{config.seed}"
