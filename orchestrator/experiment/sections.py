"""The sections of an experiment's YAML file, each with its ranges; unknown keys are refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from orchestrator.experiment.values import (
    BoundOrDefault,
    Goal,
    Hours,
    LossName,
    Metric,
    Minutes,
    ModelName,
    SamplerName,
    TrainingChange,
)
from orchestrator.experiment.yaml_files import STRICT
from trainables.config import ParameterValue
from trainables.errors import Mistakes

MOST_REPEATS = 100
"""Most searches of a study."""

USUAL_SEEDS = 5
"""Seeds of a fixed design that names no number: fewer seeds often miss a lead of 3 standard deviations."""


class Objective(BaseModel):
    """A further goal of a search.

    Attributes:
        metric: A metric or a COCOS count; its value at the trial's best epoch counts.
        direction: ``maximize`` or ``minimize``.
    """

    model_config = STRICT
    metric: Goal
    direction: Literal["maximize", "minimize"] = "maximize"


class Search(BaseModel):
    """How the coefficients are searched.

    Attributes:
        sampler: One of these, or of a plug-in. ``cmaes`` adapts a normal distribution to ranges; ``gp``, a Gaussian
            process, is for few and costly trials. ``qmc`` is a Sobol sequence; ``grid`` takes the listed values.
        trials: Trials of each search of a study, >= 1; a loss's published settings come first. A grid may have fewer
            points.
        repeats: Number of independent searches of each study, >= 1, each with ``trials`` trials. With several, the
            confirmation compares losses; with one, it compares settings.
        seed: Seed of the suggestions and of every training, >= 0.
        metric: The metric that is maximised; a trial counts with its best epoch.
        objectives: Further goals beside ``metric``, each a metric to maximise or ``{metric, direction}``.
        space_version: Version of the default bounds.
        loss: ``each``: each loss has a study; ``choose``: the loss is a parameter of one study for each dataset and
            model.
        space: Loss -> parameter -> ``[low, high]``, ``{values: [...]}`` or ``default``. Some parameters, such as
            ``negatives``, are searched only where they are named here.
        training: Setting of ``training`` -> ``[low, high]``, ``{values: [...]}`` or ``default``; searched beside every
            loss.
        model_parameters: Parameter of a model -> ``[low, high]``, ``{values: [...]}`` or ``default``; searched in the
            models that have the parameter.
        fixed: Loss -> parameter -> the value that the parameter has in all trials.
        enqueue: Loss -> points that are tried right after the published points, each parameter -> value.
        replicates: How often a setting that the sampler suggests again is trained again, with another seed, >= 0.
            Sampler and ranking take the mean of a setting's trainings.
        prior: ``none``, or ``auto``: at most a quarter of the trials first try the best settings of other datasets.
            They come from searches under the output that fit.
        warm_start_from: Experiments, by name under the output or by directory, whose trials the sampler starts from.
    """

    model_config = STRICT
    sampler: SamplerName = "tpe"
    trials: Annotated[int, Field(ge=1)] = 16
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    metric: Metric = "val/rsum"
    objectives: tuple[Goal | Objective, ...] = ()
    space_version: Literal[3] = 3
    loss: Literal["each", "choose"] = "each"
    space: dict[LossName, dict[str, BoundOrDefault]] = {}
    training: dict[str, BoundOrDefault] = {}
    model_parameters: dict[str, BoundOrDefault] = {}
    fixed: dict[LossName, dict[str, ParameterValue]] = {}
    enqueue: dict[LossName, tuple[dict[str, ParameterValue], ...]] = {}
    replicates: Annotated[int, Field(ge=0)] = 0
    prior: Literal["none", "auto"] = "none"
    warm_start_from: tuple[str, ...] = ()

    @property
    def goals(self) -> tuple[Objective, ...]:
        """All objectives, ``metric`` first, each once."""
        further = [Objective(metric=goal) if isinstance(goal, str) else goal for goal in self.objectives]
        return (Objective(metric=self.metric), *(goal for goal in further if goal.metric != self.metric))


SCHEDULER_SETTINGS: dict[str, tuple[str, ...]] = {
    "none": (),
    "asha": ("grace_epochs", "reduction_factor"),
    "hyperband": ("grace_epochs", "reduction_factor", "brackets"),
    "median": ("grace_epochs", "min_trials"),
}
"""The settings that each scheduler has."""

WITHDRAWN = {"perturbation_epochs": 2, "quantile": 0.25}
"""Settings of population-based training, which earlier versions wrote into each experiment -> their defaults."""


class Scheduler(BaseModel):
    """Rules for a trial that is worse than the other trials of its study.

    Attributes:
        name: ``none``, ``asha``, ``hyperband`` or ``median``. ``asha`` continues the best of the trials that reach a
            rung. ``hyperband`` is ``asha`` in several brackets, for curves that cross. ``median`` continues a trial
            while it is no worse than the median of the others at its epoch.
        grace_epochs: No trial ends before this epoch, >= 1.
        reduction_factor: At each rung one trial in this number continues, > 1. The epoch of a rung is this factor times
            that of the rung before. For ``asha`` and ``hyperband``.
        brackets: For ``hyperband``: number of brackets, >= 1; new trials are given to the brackets in turn.
        min_trials: For ``median``: no trial is stopped at an epoch that fewer other trials have reached, >= 1.
    """

    model_config = STRICT
    name: Literal["none", "asha", "hyperband", "median"] = "asha"
    grace_epochs: Annotated[int, Field(ge=1)] = 3
    reduction_factor: Annotated[float, Field(gt=1)] = 3
    brackets: Annotated[int, Field(ge=1)] = 3
    min_trials: Annotated[int, Field(ge=1)] = 3

    @model_validator(mode="before")
    @classmethod
    def _without_withdrawn(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if WITHDRAWN.get(name) != value}

    @field_validator("name", mode="before")
    @classmethod
    def _refuse_populations(cls, name: Any) -> Any:
        if name == "pbt":
            raise ValueError(
                "pbt, population-based training, is not offered any more; Ray Tune's own PopulationBasedTraining can "
                "train trainables.run_trial; here take asha, hyperband, median or none"
            )
        return name

    @model_validator(mode="after")
    def _check(self) -> "Scheduler":
        mistakes = Mistakes()
        for name in dict.fromkeys(name for names in SCHEDULER_SETTINGS.values() for name in names):
            if getattr(self, name) != type(self).model_fields[name].default and not self.uses(name):
                mistakes.problems.append(
                    f"scheduler.{name}: {self.why_unused(name)}; remove it, or "
                    f"replace the whole section: --set 'scheduler={{name: {self.name}}}'"
                )
        mistakes.refuse()
        return self

    def uses(self, name: str) -> bool:
        """Say whether the scheduler of this name has a setting."""
        return name in SCHEDULER_SETTINGS[self.name]

    def why_unused(self, name: str) -> str:
        """Return in words why a setting does nothing with the scheduler of this name."""
        owners = ", ".join(owner for owner, names in SCHEDULER_SETTINGS.items() if name in names)
        return f"a setting of {owners}, but scheduler.name is {self.name}"


class Resources(BaseModel):
    """The CPUs and GPUs of one trial.

    Attributes:
        cpus: CPUs, > 0; also the threads of its PyTorch, rounded up.
        gpus: GPUs, >= 0, a fraction to share one. ``auto`` is as much as a trial was measured to need, or none where
            there is no GPU.
        fuse: Number of trials that one process trains, stacked or in turns, >= 1. ``auto`` is the number that was
            measured to be fastest.
        max_concurrent: Trials at a time, >= 1; ``null`` is as many as fit.
    """

    model_config = STRICT
    cpus: Annotated[float, Field(gt=0)] = 1
    gpus: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    fuse: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    max_concurrent: Annotated[int, Field(ge=1)] | None = None


class Override(BaseModel):
    """Settings of some studies that differ from the settings of the experiment.

    Attributes:
        datasets: The studies of these datasets; ``null`` is all datasets.
        models: The studies of these models; ``null`` is all models.
        losses: The studies of these losses; ``null`` is all losses.
        training: Keys of ``training`` with their values in these studies.
        model_parameters: Parameters of the models with their values in these studies.
        metric: The metric that selects the best epoch in these studies.
        grace_epochs: The value of ``scheduler.grace_epochs`` in these studies, >= 1.
        tokenizer: The value of ``tokenizer`` for the named datasets, with all their models and losses.
    """

    model_config = STRICT
    datasets: tuple[str, ...] | None = None
    models: tuple[ModelName, ...] | None = None
    losses: tuple[LossName, ...] | None = None
    training: TrainingChange = {}
    model_parameters: dict[str, ParameterValue] = {}
    metric: Metric | None = None
    grace_epochs: Annotated[int, Field(ge=1)] | None = None
    tokenizer: str | None = None

    def concerns(self, dataset: str, model: str, loss: str) -> bool:
        """Say whether the settings are for the study of a dataset, a model and a loss."""
        named = ((self.datasets, dataset), (self.models, model), (self.losses, loss))
        return all(names is None or name in names for names, name in named)


class Budget(BaseModel):
    """Limits that end a search although trials are left; the first limit that is reached ends the search.

    Attributes:
        hours: Hours of wall-clock time of the search, all starts together, > 0.
        gpu_hours: GPUs of a trial times the hours that it ran, over all trials of the search, > 0.
        target: Value of ``search.metric`` that is good enough; the search ends when a finished trial reaches it.
        plateau: Ended trials in a row, over a whole study, without a better best value, >= 1.
    """

    model_config = STRICT
    hours: Hours | None = None
    gpu_hours: Hours | None = None
    target: float | None = None
    plateau: Annotated[int, Field(ge=1)] | None = None


class Patience(BaseModel):
    """How long a trial may be silent, and how often it is tried again, before it is given up.

    Attributes:
        epoch_minutes: Minutes without a report after which a trial has hung and is ended, > 0.
        memory_retries: How often a trial that ran out of memory is tried again, with fewer trials at a time, >= 0.
    """

    model_config = STRICT
    epoch_minutes: Minutes = 60
    memory_retries: Annotated[int, Field(ge=0)] = 2


class Confirm(BaseModel):
    """Which trials are trained again with fresh seeds before a winner is named.

    Attributes:
        top: Number of best trials of each study, >= 1; with ``search.repeats`` the best of each search, 1.
        each_of: A searched parameter, for a fixed design. ``top`` then counts the best trials with each value of it,
            and the trend over the values is tested.
        seeds: A fixed design: number of fresh seeds of each candidate, >= 2; by default 5. With ``search.repeats``: of
            the best of each search, >= 1, by default 1.
        trainings: A race: most trainings for the candidates of each dataset; ``null`` is a fixed design. At least 2 for
            each possible candidate.
        published: Published settings that are trained again as well: the ``best`` of a dataset in the search, or
            ``each`` study's.
        surface: Whether the setting to use of each study is trained too, as one more trial, and confirmed.
        baseline: Loss with which the winner is compared; ``null`` is the published settings that did best in the
            search.
        verdict: Variation in the test that decides: ``seeds_and_images``, seeds and new images of this kind; ``seeds``,
            on this test set. An experiment that was begun without this key keeps ``seeds``.
        looks: Earlier openings of the test split that lower the level: of this ``experiment``, or of all under the
            ``output``.
        smallest_difference: The least lead that matters, in the unit of ``search.metric``, >= 0. A verdict says how
            likely it is.
    """

    model_config = STRICT
    top: Annotated[int, Field(ge=1)] = 3
    each_of: str | None = None
    seeds: Annotated[int, Field(ge=1)] | None = None
    trainings: Annotated[int, Field(ge=4)] | None = None
    published: Literal["best", "each"] = "best"
    surface: bool = False
    baseline: LossName | None = None
    verdict: Literal["seeds", "seeds_and_images"] = "seeds_and_images"
    looks: Literal["experiment", "output"] = "experiment"
    smallest_difference: Annotated[float, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _check(self) -> "Confirm":
        if self.each_of is not None and self.trainings is not None:
            raise ValueError("each_of: every value keeps its candidates in a fixed design; set seeds, not trainings")
        if self.seeds is not None and self.trainings is not None:
            raise ValueError(
                f"seeds: {self.seeds} seeds of each candidate (a fixed design) exclude {self.trainings} trainings in "
                f"all (a race); leave out one of the two"
            )
        return self
