"""A suite, read from YAML and checked whole: which cells are rerun, with how many seeds, which difference matters.

The suites that ship with the product. The module imports little, because ``--help`` lists the suites.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Resources, Scheduler, Search
from orchestrator.experiment.spaces import at
from orchestrator.experiment.values import LossName, Metric, ModelName, Name, TrainingChange
from orchestrator.experiment.yaml_files import STRICT, find_file, override, read_yaml, validate
from search_spaces import SPACES
from trainables.config import ParameterValue, TrainingConfig, TrialConfig
from trainables.errors import Mistakes


def shipped_suites() -> Mapping[str, Path]:
    """Return the files of the suites that ship, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "suites").glob("*.yaml"))}


class SuiteCell(BaseModel):
    """One baseline of a suite.

    Attributes:
        name: Name of the cell in reference and reports; by default ``<dataset>-<model>-<loss>``.
        dataset: Name of a folder under the data root, or a path.
        model: Name of a model.
        loss: Name of a loss.
        loss_parameters: Parameters of the loss; a parameter that is left out has the loss's default.
        model_parameters: Parameters of the model beyond its sizes.
        training: Training keys that differ from the suite's ``training``.
        metric: The metric that selects the best epoch, where the metric is not the suite's ``score``.
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
        """The cell's name, given or made."""
        return self.name or f"{Path(self.dataset).name}-{self.model}-{self.loss}"


class Suite(BaseModel):
    """Baselines that are rerun together.

    Attributes:
        name: Name of the suite's output folder and of its experiment in MLflow.
        description: What the suite is about, for people.
        seeds: Number of seeds of each cell, >= 2; the seeds are 1, 2, ...
        max_seeds: Most seeds of a cell whose first ``seeds`` seeds are inconclusive; not below ``seeds``.
        score: Metric that is compared, and that selects the best epoch by default.
        matters: The smallest drop of the score that matters, > 0, in the score's unit.
        gradients_matter: The smallest change of training loss and COCOS counts that matters, as a share of them, > 0.
        false_alarms: How often a suite without any change may find a regression, in (0, 0.5).
        published: Whether the test split is opened and its scores are compared with the papers' tables.
        training: Training keys that all cells share.
        vocabulary: ``train``: words of the train split; ``published``: the splits that the papers used.
        tokenizer: How captions are cut into tokens; ``null`` infers it from the captions. It is ``english``, ``words``,
            ``characters``, ``labels``, a ``tokenizer.json`` in the dataset's folder, or its absolute path.
        val_images: Number of first images of the val split on which to evaluate, >= 1; ``null`` is all images. The
            published code of VSE++ and VSRN takes 1,000.
        resources: The resources of one training.
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
    tokenizer: str | None = None
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
        """Return the suite as an experiment, so that searches and reruns share their preparation."""
        cells = self.cells
        return Experiment(
            name=self.name,
            description=self.description,
            datasets=tuple(dict.fromkeys(cell.dataset for cell in cells)),
            models=tuple(dict.fromkeys(cell.model for cell in cells)),
            losses=tuple(dict.fromkeys(cell.loss for cell in cells)),
            training=self.training,
            vocabulary=self.vocabulary,
            tokenizer=self.tokenizer,
            val_images=self.val_images,
            search=Search(trials=1, metric=self.score),
            scheduler=Scheduler(name="none"),
            resources=self.resources,
        )

    def experiments_of_cells(self) -> list[Experiment]:
        """Return each cell as an experiment of its own, which asks for the data that the cell reads and no others."""
        experiments = []
        for cell in self.cells:
            names = {"datasets": (cell.dataset,), "models": (cell.model,), "losses": (cell.loss,)}
            settings = {"training": replace(self.training, **cell.training), "model_parameters": cell.model_parameters}
            experiments.append(self.experiment().model_copy(update={**names, **settings}))
        return experiments

    def config(self, cell: SuiteCell, seed: int) -> TrialConfig:
        """Return the config of one training of a cell; COCOS is measured after the last epoch at least."""
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
            tokenizer=self.tokenizer,
            val_images=self.val_images,
            metric=cell.metric or self.score,
            seed=seed,
        )


def load_suite(source: str, settings: Sequence[str] = ()) -> tuple[Suite, Path]:
    """Return a suite and its file, a YAML file or by its bare name a shipped one; apply ``--set`` and check it whole.

    Raises:
        ConfigError: If anything in the suite is refused.
    """
    path = find_file(source, shipped_suites(), "suite")
    return validate(Suite, override(read_yaml(path, "a suite"), settings)), path


def _check_cell(place: str, cell: SuiteCell, suite: Suite) -> None:
    at(f"{place}.loss_parameters")(SPACES[cell.loss].check_parameters)(cell.loss_parameters)
    at(place)(suite.config)(cell, 1)
