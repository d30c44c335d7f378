"""One experiment: what to search, on which data, with which resources; checked before anything heavy is loaded."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.config_files import STRICT, load_trial_config, override, read_yaml, validate
from orchestrator.sections import METRICS, Budget, ListedValues, Override, Patience, Resources, Scheduler, Search
from search_spaces import SPACES, Bounds, LossSpace, Range, SpaceError, Values
from search_spaces.space import check_name, suggestion
from trainables.config import FEATURES, ParameterValue, TrainingConfig, TrialConfig
from trainables.errors import ConfigError
from trainables.seeding import derive_seed

__all__ = ["Cell", "Experiment", "load_experiment", "load_trial_config"]


FREE = ("description", "budget", "resources", "patience", "confirm")
"""Sections that may change from one start of an experiment to the next: no trial comes out otherwise for them."""


@dataclass(frozen=True)
class Cell:
    """One study: a dataset, a model and a loss, with where to look.

    Attributes:
        name: Of the study, and the start of its trials' ids.
        bounds: Where each searched parameter lies.
        fixed: Parameters that are not searched.
        training: What its trials share.
        model_parameters: The same.
        metric: What selects the best epoch of a trial.
        seed: From which the seeds of its suggestions are made.
    """

    name: str
    dataset: str
    model: str
    loss: str
    bounds: Bounds = field(repr=False)
    fixed: Mapping[str, Any] = field(repr=False)
    training: TrainingConfig = field(repr=False)
    model_parameters: Mapping[str, ParameterValue] = field(repr=False)
    metric: str
    seed: int = 0

    @property
    def space(self) -> LossSpace:
        """The search space of its loss."""
        return SPACES[self.loss]

    def grid(self) -> list[dict[str, Any]]:
        """Return every combination of the listed values, the last parameter changing fastest."""
        values = [bound.values for bound in self.bounds.values() if isinstance(bound, Values)]
        return [dict(zip(self.bounds, point, strict=True)) for point in itertools.product(*values)]


class _TrainingSection(BaseModel):
    model_config = STRICT
    training: TrainingConfig


class Experiment(BaseModel):
    """The resolved description of an experiment.

    Attributes:
        name: Folder of its output and name in MLflow.
        description: For people.
        datasets: Names under the data root, or paths.
        models: Each is combined with each dataset and each loss; every combination is one study.
        losses: Names of ``search_spaces.SPACES``.
        training: What all trials share, but for ``overrides``.
        overrides: Settings of some studies, applied in their order.
        model_parameters: Constructor arguments of the models beyond their sizes.
        vocabulary: See ``TrialConfig``.
    """

    model_config = STRICT
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    description: str = ""
    datasets: Annotated[tuple[str, ...], Field(min_length=1)]
    models: Annotated[tuple[str, ...], Field(min_length=1)] = ("vsepp",)
    losses: Annotated[tuple[str, ...], Field(min_length=1)]
    training: TrainingConfig = TrainingConfig()
    overrides: tuple[Override, ...] = ()
    model_parameters: dict[str, ParameterValue] = {}
    vocabulary: Literal["train", "published"] = "train"
    search: Search = Search()
    scheduler: Scheduler = Scheduler()
    budget: Budget = Budget()
    resources: Resources = Resources()
    patience: Patience = Patience()

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        _check_names("models", self.models, FEATURES)
        _check_names("losses", self.losses, SPACES)
        _check_names("search.metric", [self.search.metric], METRICS)
        for number, change in enumerate(self.overrides):
            _check_override(f"overrides.{number}", change, self)
        for key, named in (("search.space", self.search.space), ("search.fixed", self.search.fixed)):
            _check_names(key, named, self.losses)
        cells = self.cells()
        for cell in cells:
            # Refuses now what would otherwise end each trial of the study.
            self.trial_config(cell, {})
        names = [cell.name for cell in cells]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two studies would be called {name!r}; list each dataset, model and loss once")
        return self

    def cells(self) -> list[Cell]:
        """Return the studies, in the order of datasets, models and losses.

        Raises:
            ValueError: If bounds or fixed parameters are refused.
        """
        return [
            self._cell(dataset, model, loss)
            for dataset in self.datasets
            for model in self.models
            for loss in self.losses
        ]

    def trials_in(self, cell: Cell) -> int:
        """Return how many trials a study has in the end."""
        if self.search.sampler != "grid":
            return self.search.trials
        return min(self.search.trials, len(cell.grid()))

    def _cell(self, dataset: str, model: str, loss: str) -> Cell:
        name = f"{Path(dataset).name}-{model}-{loss}"
        bounds, fixed = self._bounds(loss)
        if self.search.sampler == "grid":
            _check_grid(loss, bounds)
        changes = [change for change in self.overrides if change.concerns(dataset, model, loss)]
        training = {key: value for change in changes for key, value in change.training.items()}
        parameters = {key: value for change in changes for key, value in change.model_parameters.items()}
        metric = next((change.metric for change in reversed(changes) if change.metric), self.search.metric)
        return Cell(
            name=name,
            dataset=dataset,
            model=model,
            loss=loss,
            bounds=bounds,
            fixed=fixed,
            training=replace(self.training, **training),
            model_parameters={**self.model_parameters, **parameters},
            metric=metric,
            seed=derive_seed(self.search.seed, name, bits=32),
        )

    def _bounds(self, loss: str) -> tuple[Bounds, dict[str, Any]]:
        """Return where to look for a loss's parameters, and those that stand still."""
        space, fixed = SPACES[loss], dict(self.search.fixed.get(loss, {}))
        given: dict[str, Range | Values] = {}
        for name, bound in self.search.space.get(loss, {}).items():
            try:
                given[name] = _bound(bound, space.bounds.get(name))
            except SpaceError as error:
                raise ValueError(f"search.space.{loss}.{name}: {error}") from None
        try:
            bounds = space.narrowed(given)
        except SpaceError as error:
            raise ValueError(f"search.space.{loss}: {error}") from None
        try:
            space.check_parameters(fixed)
        except SpaceError as error:
            raise ValueError(f"search.fixed.{loss}: {error}") from None
        searched = {name: Values((fixed.pop(name),)) for name in list(fixed) if name in bounds}
        return {**bounds, **searched}, fixed

    def trial_config(self, cell: Cell, loss_parameters: Mapping[str, Any]) -> TrialConfig:
        """Return the training that a suggestion describes."""
        return TrialConfig(
            dataset=cell.dataset,
            model=cell.model,
            loss=cell.loss,
            model_parameters=cell.model_parameters,
            loss_parameters={**loss_parameters, **cell.fixed},
            training=cell.training,
            vocabulary=self.vocabulary,
            metric=cell.metric,
            seed=self.search.seed,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved experiment as plain values; ``load_experiment`` reads them back."""
        return self.model_dump(mode="json")


def load_experiment(source: str, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment from a YAML file or, by its bare name, one that ships; apply ``--set`` and check all of it.

    Raises:
        ConfigError: If anything in it is refused.
    """
    path = find_experiment(source)
    return validate(Experiment, override(read_yaml(path), overrides), str(path))


def find_experiment(source: str) -> Path:
    """Return the file of an experiment: a path, or the name of one that ships.

    Raises:
        ConfigError: If there is neither.
    """
    path = Path(source)
    if path.suffix or len(path.parts) != 1 or path.is_file():
        return path
    shipped = shipped_experiments()
    if source not in shipped:
        hint = suggestion(source, sorted(shipped), "experiments that ship")
        raise ConfigError(f"{source}: neither a file nor an experiment that ships; {hint}")
    return shipped[source]


def shipped_experiments() -> dict[str, Path]:
    """Return the experiments that ship with the product, by name."""
    directory = Path(str(files("search_spaces"))) / "experiments"
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the keys whose change would make trials of two starts of one experiment incomparable.

    More trials than before are no such change, nor are those of ``FREE``.
    """
    before, after = dict(_flat(old)), dict(_flat(new))
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if before.get("search.trials", 0) <= after.get("search.trials", 0):
        changed = [key for key in changed if key != "search.trials"]
    return [key for key in changed if key.partition(".")[0] not in FREE]


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return rows


def _check_override(key: str, change: Override, experiment: Experiment) -> None:
    for part in ("datasets", "models", "losses"):
        _check_names(f"{key}.{part}", getattr(change, part) or (), getattr(experiment, part))
    _check_names(f"{key}.metric", [change.metric] if change.metric else (), METRICS)
    # Types and ranges are those of ``training``, whose other values go along.
    validate(_TrainingSection, {"training": {**asdict(experiment.training), **change.training}}, key)


def _bound(given: tuple[float, float] | ListedValues, default: Range | Values | None) -> Range | Values:
    if isinstance(given, ListedValues):
        return Values(given.values)
    return Range(given[0], given[1], log=isinstance(default, Range) and default.log)


def _check_grid(loss: str, bounds: Bounds) -> None:
    for name, bound in bounds.items():
        if isinstance(bound, Range):
            raise ValueError(f"search.space.{loss}.{name}: a grid needs values, e.g. {{values: [{bound.low}]}}")


def _check_names(key: str, names: Sequence[str] | Mapping[str, Any], known: Sequence[str] | Mapping[str, Any]) -> None:
    for name in names:
        try:
            check_name(name, known, "known")
        except SpaceError as error:
            raise ValueError(f"{key}: {error}") from None
