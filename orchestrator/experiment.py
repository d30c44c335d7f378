"""One experiment: what to search, on which data, with which resources; checked before anything heavy is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.config_files import STRICT, find_file, load_trial_config, override, read_yaml, validate
from orchestrator.sections import COUNTS, METRICS, Budget, Confirm, Override, Patience, Resources, Scheduler, Search
from orchestrator.study_spaces import (
    check_beside,
    check_names,
    check_population,
    check_sampler,
    check_training,
    enqueued_points,
    make_space,
)
from search_spaces import SPACES, StudySpace, Suggestion
from trainables.config import FEATURES, ParameterValue, TrainingConfig, TrialConfig
from trainables.errors import ConfigError
from trainables.model_parameters import MODEL_PARAMETERS
from trainables.seeding import derive_seed

__all__ = ["Cell", "Experiment", "load_experiment", "load_trial_config"]


FREE = ("description", "budget", "resources", "patience", "confirm")
"""Sections that may change from one start of an experiment to the next: no trial comes out otherwise for them."""


ANY = "any"
"""What a study is called after when its loss is searched as well."""


@dataclass(frozen=True)
class Cell:
    """One study: a dataset, a model and a loss, or the choice of one, with where to look.

    Attributes:
        name: Of the study, and the start of its trials' ids.
        loss: Its loss; ``any`` where that is searched as well.
        space: Where to look.
        training: What its trials share, but for what is searched.
        model_parameters: The same.
        metric: What selects the best epoch of a trial.
        enqueued: Points that are tried right after the published ones.
        seed: From which the seeds of its suggestions are made.
    """

    name: str
    dataset: str
    model: str
    loss: str
    space: StudySpace = field(repr=False)
    training: TrainingConfig = field(repr=False)
    model_parameters: Mapping[str, ParameterValue] = field(repr=False)
    metric: str
    enqueued: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    seed: int = 0


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
        val_images: Evaluate on the first so many images of the val split, >= 1, as the published code of VSE++ and VSRN
            does with 1,000; ``null`` is all of them.
        confirm: What is trained again after the search; ``null`` is nothing, and then no winner is confirmed.
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
    val_images: Annotated[int, Field(ge=1)] | None = None
    search: Search = Search()
    scheduler: Scheduler = Scheduler()
    budget: Budget = Budget()
    resources: Resources = Resources()
    patience: Patience = Patience()
    confirm: Confirm | None = None

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        check_names("models", self.models, FEATURES)
        check_names("losses", self.losses, SPACES)
        check_names("search.metric", [self.search.metric], METRICS)
        if self.confirm is not None and self.confirm.baseline is not None:
            check_names("confirm.baseline", [self.confirm.baseline], self.losses)
        for number, change in enumerate(self.overrides):
            _check_override(f"overrides.{number}", change, self)
        check_names("search.objectives", [goal.metric for goal in self.search.goals], (*METRICS, *COUNTS))
        for key in ("space", "fixed", "enqueue"):
            check_names(f"search.{key}", getattr(self.search, key), self.losses)
        known = {name for model in self.models for name in MODEL_PARAMETERS[model]}
        check_names("search.model_parameters", self.search.model_parameters, sorted(known))
        cells = self.cells()
        for cell in cells:
            # Refuses now what would otherwise end each trial of the study.
            self.trial_config(cell, {})
            check_beside(cell.space, cell.model, cell.training)
            check_sampler(self.search, cell.space)
            check_population(self.search, self.scheduler, cell.space, cell.training.total_epochs)
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
        groups = [tuple(self.losses)] if self.search.loss == "choose" else [(loss,) for loss in self.losses]
        return [
            self._cell(dataset, model, losses)
            for dataset in self.datasets
            for model in self.models
            for losses in groups
        ]

    def trials_in(self, cell: Cell) -> int:
        """Return how many trials a study has in the end."""
        if self.search.sampler != "grid":
            return self.search.trials
        return min(self.search.trials, len(cell.space.grid()))

    def _cell(self, dataset: str, model: str, losses: tuple[str, ...]) -> Cell:
        loss = losses[0] if len(losses) == 1 else ANY
        name = f"{Path(dataset).name}-{model}-{loss}"
        changes = [change for change in self.overrides if change.concerns(dataset, model, losses[0])]
        if len(losses) > 1 and any(change.losses is not None for change in changes):
            raise ValueError("overrides: those of some losses do not go with search.loss: choose; use each")
        training = {key: value for change in changes for key, value in change.training.items()}
        parameters = {key: value for change in changes for key, value in change.model_parameters.items()}
        metric = next((change.metric for change in reversed(changes) if change.metric), self.search.metric)
        whole = replace(self.training, **training)
        space = make_space(self.search, model, losses, whole, {**self.model_parameters, **parameters})
        return Cell(
            name=name,
            dataset=dataset,
            model=model,
            loss=loss,
            space=space,
            training=whole,
            model_parameters={**self.model_parameters, **parameters},
            metric=metric,
            enqueued=enqueued_points(self.search, space),
            seed=derive_seed(self.search.seed, name, bits=32),
        )

    def trial_config(self, cell: Cell, loss_parameters: Mapping[str, Any]) -> TrialConfig:
        """Return the training of a study with given parameters of its loss, or of the first that it can choose."""
        loss, part = next(iter(cell.space.losses.items()))
        return self.suggested(cell, Suggestion(loss, {**loss_parameters, **part.fixed}))

    def suggested(self, cell: Cell, suggestion: Suggestion) -> TrialConfig:
        """Return the training that a suggestion describes."""
        return TrialConfig(
            dataset=cell.dataset,
            model=cell.model,
            loss=suggestion.loss,
            model_parameters={**cell.model_parameters, **suggestion.model_parameters},
            loss_parameters=suggestion.loss_parameters,
            training=replace(cell.training, **suggestion.training),
            vocabulary=self.vocabulary,
            val_images=self.val_images,
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
    path = find_file(source, shipped_experiments(), "experiment")
    return validate(Experiment, override(read_yaml(path), overrides), str(path))


def shipped_experiments() -> dict[str, Path]:
    """Return the experiments that ship with the product, by name."""
    directory = Path(str(files("search_spaces"))) / "experiments"
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the keys whose change would make trials of two starts of one experiment incomparable.

    More trials than before are no such change, unless they are a population, nor are those of ``FREE``.
    """
    before, after = dict(_flat(_whole(old))), dict(_flat(new))
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    grows = before.get("search.trials", 0) <= after.get("search.trials", 0)
    if grows and before.get("scheduler.name") != "pbt":
        changed = [key for key in changed if key != "search.trials"]
    return [key for key in changed if key.partition(".")[0] not in FREE]


def _whole(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an experiment with what an older version did not know, which was then as it is by default now."""
    try:
        return validate(Experiment, values, "journal").to_dict()
    except ConfigError:
        # One that is not taken any more: all that differs counts.
        return values


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return rows


def _check_override(key: str, change: Override, experiment: Experiment) -> None:
    for part in ("datasets", "models", "losses"):
        check_names(f"{key}.{part}", getattr(change, part) or (), getattr(experiment, part))
    check_names(f"{key}.metric", [change.metric] if change.metric else (), METRICS)
    # Types and ranges are those of ``training``, whose other values go along.
    check_training(experiment.training, change.training, key)
