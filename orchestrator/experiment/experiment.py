"""An experiment: spaces, data, search and resources; checked before anything heavy is loaded.

The experiment of a journal is read back here. A start is refused where a key changed after which its trials could not
be compared with the earlier trials (``changed_keys``).
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.experiment.plugins import Plugins, with_plugins
from orchestrator.experiment.sections import (
    USUAL_SEEDS,
    Budget,
    Confirm,
    Override,
    Patience,
    Resources,
    Scheduler,
    Search,
)
from orchestrator.experiment.spaces import at, check_beside, check_names, check_sampler, enqueued_points, make_space
from orchestrator.experiment.values import LossName, ModelName, Name
from orchestrator.experiment.yaml_files import STRICT, find_file, override, read_yaml, validate
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.history import History
from orchestrator.text.values import flat
from search_spaces import Range, StudySpace, Suggestion
from trainables.config import TEXT, ParameterValue, TrainingConfig, TrialConfig, derive_seed
from trainables.errors import ConfigError, Mistakes
from trainables.model_parameters import MODEL_PARAMETERS, check_model_parameters
from trainables.plugins.in_use import references

MOST_STUDIES = 500
"""Most studies of an experiment; each study is checked whole before anything starts."""


ANY = "any"
"""Takes the place of the loss in the name of a study that searches the loss as well."""


@dataclass(frozen=True)
class Cell:
    """One search of a study: a dataset, a model, and a loss or a choice of losses, with the space.

    Attributes:
        name: The name of the study, with which the ids of its trials begin; later searches have their number in it.
        loss: The loss of its trials; ``any`` if the loss is searched as well.
        training, model_parameters: The settings that its trials share; searched settings take their place.
        metric: The metric that selects the best epoch of a trial.
        enqueued: Points that are tried right after the published points.
        seed: The seeds of the search's suggestions are made from this seed.
        search: Number of the search among the independent searches of its study, from 1; see ``Search.repeats``.
        training_seed: Seed of the search's trainings.
    """

    name: str
    dataset: str
    model: str
    loss: str
    space: StudySpace = field(repr=False)
    training: TrainingConfig = field(repr=False)
    model_parameters: Mapping[str, ParameterValue] = field(repr=False)
    metric: str
    scheduler: Scheduler = field(repr=False)
    enqueued: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    seed: int = 0
    search: int = 1
    training_seed: int = 0


class Experiment(BaseModel):
    """The resolved description of an experiment.

    Attributes:
        name: Folder of its output and name in MLflow.
        description: The subject of the experiment, for people.
        plugins: Python files, or installed distributions, whose code runs. A file is looked for beside the experiment's
            file first.
        datasets: Names under the data root, or paths.
        models: Names of models; every combination of a dataset, a model and a loss is one study.
        losses: Names of losses; ``orchestrator list losses`` lists them.
        training: Settings of all trainings, except for ``overrides``.
        overrides: Settings of some studies, applied in their order.
        model_parameters: Parameters of the models beyond their sizes; ``orchestrator list models`` lists them.
        vocabulary: ``train``: words of the train split; ``published``: the splits that the papers used.
        tokenizer: How captions are cut into tokens; ``null`` infers it from the captions. It is ``english``, ``words``,
            ``characters``, ``labels``, a ``tokenizer.json`` in the dataset's folder, or its absolute path.
        val_images: Number of first images of the val split on which to evaluate, >= 1; ``null`` is all images.
        search: How the coefficients are searched.
        scheduler: Rules for a trial that is worse than the other trials of its study.
        budget: Limits that end a search although trials are left.
        resources: CPUs and GPUs of one trial.
        patience: When a trial is given up.
        confirm: The trials that are trained again after the search; with ``null`` no winner is confirmed.
    """

    model_config = STRICT
    name: Name
    description: str = ""
    # Checked before the fields that name losses and models, because plug-ins may offer these.
    plugins: Plugins = ()
    datasets: Annotated[tuple[str, ...], Field(min_length=1)]
    models: Annotated[tuple[ModelName, ...], Field(min_length=1)] = ("vsepp",)
    losses: Annotated[tuple[LossName, ...], Field(min_length=1)]
    training: TrainingConfig = TrainingConfig()
    overrides: tuple[Override, ...] = ()
    model_parameters: dict[str, ParameterValue] = {}
    vocabulary: Literal["train", "published"] = "train"
    tokenizer: str | None = None
    val_images: Annotated[int, Field(ge=1)] | None = None
    search: Search = Search()
    scheduler: Scheduler = Scheduler()
    budget: Budget = Budget()
    resources: Resources = Resources()
    patience: Patience = Patience()
    confirm: Confirm | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Experiment":
        """Fill in the design of the confirmation: of repeated searches the best of each, with one fresh seed."""
        confirm, repeated = self.confirm, self.search.repeats > 1
        if confirm is None:
            return self
        changes: dict[str, Any] = {}
        if repeated and "top" not in confirm.model_fields_set:
            changes["top"] = 1
        if confirm.seeds is None and confirm.trainings is None:
            changes["seeds"] = 1 if repeated else USUAL_SEEDS
        return self.model_copy(update={"confirm": confirm.model_copy(update=changes)}) if changes else self

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        mistakes = Mistakes()
        mistakes.of(_check_studies, self)
        mistakes.of(_check_repeats, self)
        if self.confirm is not None:
            mistakes.of(_check_confirm, self.confirm, self)
        for number, change in enumerate(self.overrides):
            mistakes.of(_check_override, f"overrides.{number}", change, self)
        for key in ("space", "fixed", "enqueue"):
            mistakes.of(check_names, f"search.{key}", getattr(self.search, key), self.losses)
        parameters = {name for model in self.models for name in MODEL_PARAMETERS[model]}
        mistakes.of(check_names, "search.model_parameters", self.search.model_parameters, sorted(parameters))
        # Refused here, because each study would repeat the mistakes found so far, in less clear words.
        mistakes.refuse()
        for names in self._combinations():
            mistakes.of(self._check_cell, *names)
        mistakes.refuse()
        return self

    def _check_cell(self, dataset: str, model: str, losses: tuple[str, ...]) -> None:
        """Refuse now a config that would otherwise end each trial of a study."""
        cell, mistakes = self._cell(dataset, model, losses), Mistakes()
        mistakes.of(self.trial_config, cell, {})
        if cell.space.model_parameters:
            first = {name: bound.ends()[0] for name, bound in cell.space.model_parameters.items()}
            together = replace(cell, model_parameters={**cell.model_parameters, **first})
            mistakes.of(at("search.model_parameters")(self.trial_config), together, {})
        mistakes.of(check_beside, cell.space, cell.model)
        mistakes.of(check_sampler, self.search, cell.space)
        mistakes.refuse()

    def _combinations(self) -> list[tuple[str, str, tuple[str, ...]]]:
        groups = [tuple(self.losses)] if self.search.loss == "choose" else [(loss,) for loss in self.losses]
        return list(itertools.product(self.datasets, self.models, groups))

    def cells(self) -> list[Cell]:
        """Return the searches of the studies, in the order of datasets, models, losses and numbers of searches.

        Raises:
            ValueError: If bounds or fixed parameters are refused.
        """
        return [self._repeated(cell, search) for cell in self.studies() for search in range(1, self.search.repeats + 1)]

    def studies(self) -> list[Cell]:
        """Return the first search of each study, in the order of datasets, models and losses; see ``cells``."""
        return [self._cell(*names) for names in self._combinations()]

    def trials_in(self, cell: Cell) -> int:
        """Return how many trials a study has in the end."""
        is_grid = self.search.sampler == "grid"
        suggested = min(self.search.trials, cell.space.grid_size) if is_grid else self.search.trials
        return suggested + self.ends_at_surface

    @property
    def ends_at_surface(self) -> bool:
        """Whether the last trial of each study has the setting to use of its surface, see ``Confirm.surface``."""
        return self.confirm is not None and self.confirm.surface

    def most_confirmations(self) -> dict[str, int]:
        """Return study -> the largest number of trainings that confirm it.

        All studies of a dataset share one race: each study is taken to get an equal share. The baseline of a dataset,
        which is a candidate too, is counted with its first study. Of repeated searches, it is a model that is not
        trained, and evaluated once.
        """
        confirm, cells = self.confirm, self.cells()
        datasets = [cell.dataset for cell in cells]
        untrained = {(cell.dataset, cell.model): cell.name for cell in reversed(cells) if cell.space.zero_shot}
        counts: dict[str, int] = {}
        for number, cell in enumerate(cells):
            place, studies = datasets[:number].count(cell.dataset), datasets.count(cell.dataset)
            if confirm is None:
                counts[cell.name] = 0
            elif confirm.trainings is not None:
                counts[cell.name] = confirm.trainings // studies + (place < confirm.trainings % studies)
            else:
                # With several searches settings of a loss are a point of each, and no candidate of their own.
                baseline = self.search.repeats == 1 and (place == 0 or confirm.published == "each")
                trials = self.trials_in(cell)
                bound = cell.space.bounds().get(confirm.each_of or "")
                # Each trial may have a value of its own in a range.
                values = trials if isinstance(bound, Range) else 1 if bound is None else len(bound.values)
                candidates = min(confirm.top * values, trials) + baseline + confirm.surface
                counts[cell.name] = candidates * (confirm.seeds or 0)
                counts[cell.name] += self.search.repeats > 1 and cell.name in untrained.values()
        return counts

    def _cell(self, dataset: str, model: str, losses: tuple[str, ...]) -> Cell:
        loss, name = losses[0] if len(losses) == 1 else ANY, _study_name(dataset, model, losses)
        changes = [change for change in self.overrides if change.concerns(dataset, model, losses[0])]
        if len(losses) > 1 and any(change.losses is not None for change in changes):
            raise ValueError("overrides: those of some losses do not go with search.loss: choose; use each")
        training: dict[str, Any] = {}
        parameters, metric, grace = dict(self.model_parameters), self.search.metric, self.scheduler.grace_epochs
        for change in changes:
            training |= change.training
            parameters |= change.model_parameters
            metric, grace = change.metric or metric, change.grace_epochs or grace
        whole = replace(self.training, **training)
        space = make_space(self.search, model, losses, whole, parameters)
        return Cell(
            name=name,
            dataset=dataset,
            model=model,
            loss=loss,
            space=space,
            training=whole,
            model_parameters=parameters,
            metric=metric,
            scheduler=self.scheduler.model_copy(update={"grace_epochs": grace}),
            enqueued=enqueued_points(self.search, space),
            seed=derive_seed(self.search.seed, name, bits=32),
            training_seed=self.search.seed,
        )

    def _repeated(self, first: Cell, search: int) -> Cell:
        """Return a search of a study by its number; the first is the search of an experiment without repeats."""
        if search == 1:
            return first
        name = f"{first.name}-search{search}"
        return replace(
            first,
            name=name,
            seed=derive_seed(self.search.seed, name, bits=32),
            search=search,
            training_seed=seed_of_search(self.search.seed, search),
        )

    def trial_config(self, cell: Cell, loss_parameters: Mapping[str, Any]) -> TrialConfig:
        """Return the training of a study with given parameters of its loss, or of the first loss that it can choose."""
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
            tokenizer=self.tokenizer_of(cell.dataset),
            val_images=self.val_images,
            metric=cell.metric,
            seed=cell.training_seed,
            plugins=references(suggestion.loss, cell.model),
        )

    def tokenizer_of(self, dataset: str) -> str | None:
        """Return the tokenizer that is named for a dataset; ``None`` infers it from the captions."""
        named = [change.tokenizer for change in self.overrides if dataset in (change.datasets or ())]
        return next((tokenizer for tokenizer in reversed(named) if tokenizer is not None), self.tokenizer)

    def as_begun(self, begun: BegunExperiment) -> "Experiment":
        """Return this experiment with the verdict of its journal, unless it names one."""
        if not (self.confirm and begun.confirm) or "verdict" in self.confirm.model_fields_set:
            return self
        confirm = self.confirm.model_copy(update={"verdict": begun.confirm.verdict})
        return self.model_copy(update={"confirm": confirm})

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved experiment as plain values; ``load_experiment`` reads them back."""
        return self.model_dump(mode="json")


def load_experiment(source: str, overrides: Sequence[str] = (), plugins: Sequence[str] = ()) -> Experiment:
    """Read an experiment from a YAML file, or a shipped one by its bare name; apply ``--set`` and check it whole.

    ``plugins``, from ``--plugin``, are files or distributions beside the plug-ins that the experiment names.

    Raises:
        ConfigError: If any key is refused.
    """
    path = find_file(source, shipped_experiments(), "experiment")
    document = override(read_yaml(path, "an experiment"), overrides)
    return validate(Experiment, with_plugins(document, plugins, path.parent))


def shipped_experiments() -> dict[str, Path]:
    """Return the experiments that ship with the product, by name."""
    directory = Path(str(files("search_spaces"))) / "experiments"
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def seed_of_search(seed: int, search: int) -> int:
    """Return the seed of the trainings of a search, from the experiment's seed and the number of the search, from 1.

    Searches of equal numbers share it, whatever their losses.
    """
    return seed if search == 1 else derive_seed(seed, "search", search)


def _study_name(dataset: str, model: str, losses: Sequence[str]) -> str:
    return f"{Path(dataset).name}-{model}-{losses[0] if len(losses) == 1 else ANY}"


def _check_studies(experiment: Experiment) -> None:
    """Refuse studies with equal names, and more studies than are checked in a moment."""
    count = len(experiment.datasets) * len(experiment.models) * len(experiment.losses)
    if count > MOST_STUDIES:
        raise ValueError(
            f"datasets: {count} studies with all models and losses; an experiment has at most {MOST_STUDIES}"
        )
    searches = count * experiment.search.repeats
    if searches > MOST_STUDIES:
        raise ValueError(
            f"search.repeats: {searches} searches of all studies; an experiment has at most {MOST_STUDIES}"
        )
    names = Counter(_study_name(*names) for names in experiment._combinations())
    name, times = names.most_common(1)[0]
    if times > 1:
        raise ValueError(f"two studies would be called {name!r}; list each dataset, model and loss once")


def _check_repeats(experiment: Experiment) -> None:
    """Refuse what goes with a single search alone, or with several alone."""
    search, confirm, mistakes = experiment.search, experiment.confirm, Mistakes()
    if search.repeats == 1:
        if confirm is not None and confirm.seeds == 1:
            raise ValueError("confirm.seeds: must be at least 2, got 1; one seed a search needs search.repeats of 2")
        return
    if search.loss == "choose":
        mistakes.problems.append(
            "search.repeats: compares losses, which search.loss: choose mixes in one study; use each"
        )
    for key, used in (("warm_start_from", search.warm_start_from), ("prior", search.prior != "none")):
        if used:
            mistakes.problems.append(
                f"search.{key}: searches that begin from the same trials are not independent; "
                f"leave it out, or set search.repeats to 1"
            )
    if confirm is not None:
        wrong = {
            f"confirm.top: {confirm.top} settings of a search are not independent; write 1": confirm.top > 1,
            "confirm.trainings: a race gives seeds, and here each search counts once; set confirm.seeds instead": (
                confirm.trainings is not None
            ),
            "confirm.published: published settings are a point of each search; write best": (
                confirm.published == "each"
            ),
            "confirm.surface: belongs to a single search; leave it out, or set search.repeats to 1": confirm.surface,
        }
        mistakes.problems += [problem for problem, is_wrong in wrong.items() if is_wrong]
    mistakes.refuse()


def _check_confirm(confirm: Confirm, experiment: Experiment) -> None:
    """Refuse now names that no study has, and a race that could not even begin, instead of after the search."""
    mistakes = Mistakes()
    if confirm.baseline is not None:
        mistakes.of(check_names, "confirm.baseline", [confirm.baseline], experiment.losses)
    studies = len(experiment._combinations()) // len(experiment.datasets)
    most = (min(confirm.top, experiment.search.trials) + confirm.surface) * studies + 1
    if confirm.trainings is not None and confirm.trainings < 2 * most:
        mistakes.problems.append(
            f"confirm.trainings: a race trains each candidate at least twice, and there may be {most} on a "
            f"dataset ({confirm.top} of each study, and the baseline), so at least {2 * most}, got {confirm.trainings}"
        )
    if confirm.each_of is not None and (cells := mistakes.of(experiment.cells)) is not None:
        searched = {name for cell in cells for name in cell.space.bounds()}
        mistakes.of(check_names, "confirm.each_of", [confirm.each_of], sorted(searched))
    mistakes.refuse()


def _check_override(key: str, change: Override, experiment: Experiment) -> None:
    mistakes = Mistakes()
    for part in ("datasets", "models", "losses"):
        mistakes.of(check_names, f"{key}.{part}", getattr(change, part) or (), getattr(experiment, part))
    if change.grace_epochs is not None and not experiment.scheduler.uses("grace_epochs"):
        mistakes.problems.append(f"{key}.grace_epochs: {experiment.scheduler.why_unused('grace_epochs')}; remove it")
    if change.tokenizer is not None and (not change.datasets or change.models or change.losses):
        mistakes.problems.append(f"{key}.tokenizer: belongs to datasets: name them, without models and losses")
    for model in change.models or experiment.models:
        mistakes.of(at(key)(check_model_parameters), model, change.model_parameters)
    mistakes.refuse()


def data_key(config: TrialConfig) -> str:
    """Return the key of the digest of a trial's data, which depends on the features and inputs that its model reads."""
    read = [config.features, *([TEXT] if config.reads_text_features else []), *config.inputs]
    return f"{config.dataset}:{'+'.join(read)}"


KEPT = 64
"""Experiments whose type is kept; a page about several experiments asks for each again and again."""


def experiment_of(history: History) -> Experiment:
    """Return the experiment of the newest start.

    Raises:
        ConfigError: If this version refuses the experiment, e.g. for a plug-in that is not installed.
    """
    return _parsed(history.experiment)


def known_experiment(history: History) -> Experiment | None:
    """Return the experiment of the newest start; ``None`` where nothing began, or where this version refuses it."""
    try:
        return experiment_of(history) if history.experiment else None
    except ConfigError:
        return None


@lru_cache(maxsize=KEPT)
def _parsed(begun: BegunExperiment) -> Experiment:
    return validate(Experiment, begun.values, f"journal of {begun.name}")


FREE = ("description", "budget", "resources", "patience", "confirm", "plugins")
"""Sections that may change between two starts of an experiment, because they do not change the outcome of any trial.

Plug-ins are compared by their digests, see ``plugins.changed_plugins``.
"""


GROWING = ("search.trials", "search.repeats")
"""Numbers that may be larger at a later start."""


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose change would make trials of two starts of one experiment incomparable, with both values.

    A larger number (``GROWING``) is no such change, nor is a change in a section of ``FREE``. A missing key has the
    value ``None``.
    """
    before, after = flat(_whole(old)), flat(new)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    changed = [key for key in changed if key not in GROWING or before.get(key, 0) > after.get(key, 0)]
    return {key: (before.get(key), after.get(key)) for key in changed if key.partition(".")[0] not in FREE}


def _whole(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an experiment with the keys that an older version did not have, each with its default."""
    try:
        return _parsed(BegunExperiment.of(values)).to_dict()
    except ConfigError:
        # This version refuses the old experiment, so every difference counts.
        return values
