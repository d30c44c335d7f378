"""A suite: the cells that are rerun, how often, and what difference matters; read from YAML and checked whole."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Resources, Scheduler, Search
from orchestrator.experiment.spaces import refuse_as
from orchestrator.experiment.values import LossName, Metric, ModelName, Name, TrainingChange
from orchestrator.experiment.yaml_files import STRICT, find_file, override, read_kind, validate
from orchestrator.regression.shipped import shipped_suites
from search_spaces import SPACES
from trainables.config import ParameterValue, TrainingConfig, TrialConfig
from trainables.errors import ConfigError, Mistakes


class SuiteCell(BaseModel):
    """One baseline.

    Attributes:
        name: In reference and reports; by default ``<dataset>-<model>-<loss>``.
        dataset: Name of a folder under the data root, or a path.
        model: Name of a model.
        loss: Name of a loss.
        loss_parameters: What is left out has the loss's default.
        model_parameters: Parameters of the model beyond its sizes.
        training: Keys that differ from the suite's ``training``.
        metric: What selects the best epoch, where it is not the suite's ``score``.
    """

    model_config = STRICT
    name: Name | None = None
    dataset: str
    model: ModelName = "vsepp"
    loss: LossName
    loss_parameters: dict[str, ParameterValue] = {}
    model_parameters: dict[str, ParameterValue] = {}
    training: TrainingChange = {}
    metric: Metric | None = None

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name or f"{Path(self.dataset).name}-{self.model}-{self.loss}"


class Suite(BaseModel):
    """Baselines that are rerun together.

    Attributes:
        name: Folder of its output and name in MLflow.
        description: What the suite is about, for people.
        seeds: Each cell is trained with the seeds 1 to this, >= 2.
        max_seeds: Where that is inconclusive, with the seeds up to this; not below ``seeds``.
        score: Metric that is compared, and by default selects the best epoch.
        matters: The smallest drop of it that matters, > 0, in its unit.
        gradients_matter: The smallest change of training loss and COCOS counts that matters, as a share of them, > 0.
        false_alarms: How often a suite without any change may find a regression, in (0, 0.5).
        published: Whether the test split is opened and its scores are compared with the papers' tables.
        training: What all cells share.
        vocabulary: ``train``: words of the train split; ``published``: the splits that the papers used.
        val_images: Evaluate on the first so many images of the val split, >= 1; ``null`` is all of them.
        resources: What one training takes.
        cells: The baselines.
    """

    model_config = STRICT
    name: Name
    description: str = ""
    seeds: Annotated[int, Field(ge=2)] = 3
    max_seeds: Annotated[int, Field(ge=2)] = 3
    score: Metric = "val/rsum"
    matters: Annotated[float, Field(gt=0)]
    gradients_matter: Annotated[float, Field(gt=0)] = 0.1
    false_alarms: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    published: bool = False
    training: TrainingConfig = TrainingConfig()
    vocabulary: Literal["train", "published"] = "train"
    val_images: Annotated[int, Field(ge=1)] | None = None
    resources: Resources = Resources()
    cells: Annotated[tuple[SuiteCell, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> "Suite":
        mistakes = Mistakes()
        if self.max_seeds < self.seeds:
            mistakes.problems.append(f"max_seeds: must be at least seeds ({self.seeds}), got {self.max_seeds}")
        titles = Counter(cell.title for cell in self.cells)
        for number, cell in enumerate(self.cells):
            if titles[cell.title] > 1:
                mistakes.problems.append(
                    f"cells.{number}: {titles[cell.title]} cells are called {cell.title!r}; give each a `name`"
                )
            mistakes.of(_check_cell, f"cells.{number}", cell, self)
        mistakes.refuse()
        return self

    def experiment(self) -> Experiment:
        """Return it as the experiment that the parts which know experiments see."""
        cells = self.cells
        return Experiment(
            name=self.name,
            description=self.description,
            datasets=tuple(dict.fromkeys(cell.dataset for cell in cells)),
            models=tuple(dict.fromkeys(cell.model for cell in cells)),
            losses=tuple(dict.fromkeys(cell.loss for cell in cells)),
            training=self.training,
            vocabulary=self.vocabulary,
            val_images=self.val_images,
            search=Search(trials=1, metric=self.score),
            scheduler=Scheduler(name="none"),
            resources=self.resources,
        )

    def config(self, cell: SuiteCell, seed: int) -> TrialConfig:
        """Return one training of a cell; COCOS is measured after its last epoch at least."""
        training = replace(self.training, **cell.training)
        training = replace(training, cocos_every=training.cocos_every or training.total_epochs)
        return TrialConfig(
            dataset=cell.dataset,
            model=cell.model,
            loss=cell.loss,
            model_parameters=cell.model_parameters,
            loss_parameters=cell.loss_parameters,
            training=training,
            vocabulary=self.vocabulary,
            val_images=self.val_images,
            metric=cell.metric or self.score,
            seed=seed,
        )


def load_suite(source: str, settings: Sequence[str] = ()) -> tuple[Suite, Path]:
    """Read a suite from a YAML file or, by its bare name, one that ships; apply ``--set`` and check all of it.

    Returns:
        The suite and the file that it came from.

    Raises:
        ConfigError: If anything in it is refused.
    """
    path = find_file(source, shipped_suites(), "suite")
    return validate(Suite, override(read_kind(path, "a suite"), settings)), path


def _check_cell(place: str, cell: SuiteCell, suite: Suite) -> None:
    mistakes = Mistakes()
    mistakes.of(SPACES[cell.loss].check_parameters, cell.loss_parameters)
    if mistakes.problems:
        raise ConfigError([f"{place}.loss_parameters: {problem}" for problem in mistakes.problems])
    refuse_as(place, partial(suite.config, cell, 1))
