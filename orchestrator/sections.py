"""The sections of an experiment's YAML file, each with its ranges; unknown keys are refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from orchestrator.config_files import STRICT
from trainables.config import ParameterValue

METRICS = (
    "val/rsum",
    "val/r1_r5_sum",
    *(f"val/{way}_{name}" for way in ("i2t", "t2i") for name in ("r1", "r5", "r10", "map5", "average_recall")),
)
"""What can be maximised: the metrics of which more is better."""


class ListedValues(BaseModel):
    """Values of a parameter, one by one."""

    model_config = STRICT
    values: Annotated[tuple[ParameterValue, ...], Field(min_length=1)]


class Search(BaseModel):
    """How the coefficients are searched.

    Attributes:
        sampler: ``tpe``, ``random``, or ``grid``, which takes the listed values one after the other.
        trials: In each study, >= 1; a loss's published settings come first. A grid may have fewer points than that.
        seed: Of the suggestions and of every training, >= 0.
        metric: What is maximised; a trial counts with its best epoch.
        loss: ``each``: a study a loss; ``choose``: the loss is a parameter of one study a dataset and model.
        space: Loss -> parameter -> ``[low, high]`` or ``{values: [...]}``, where it differs from the default.
        training: Setting of ``training`` -> the same, or ``default``; searched beside every loss.
        model_parameters: The same for ``model_parameters``, in the models that have them.
        fixed: Loss -> parameter -> the one value it has.
    """

    model_config = STRICT
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    trials: Annotated[int, Field(ge=1)] = 16
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    metric: str = "val/rsum"
    loss: Literal["each", "choose"] = "each"
    space: dict[str, dict[str, tuple[float, float] | ListedValues]] = {}
    training: dict[str, tuple[float, float] | ListedValues | Literal["default"]] = {}
    model_parameters: dict[str, tuple[float, float] | ListedValues | Literal["default"]] = {}
    fixed: dict[str, dict[str, ParameterValue]] = {}


class Scheduler(BaseModel):
    """When a trial is stopped for being worse than the others of its study.

    Attributes:
        name: ``asha`` or ``none``.
        grace_epochs: No trial ends before this epoch, >= 1.
        reduction_factor: One trial in so many goes on at each rung, > 1; a rung is so many times the one before.
    """

    model_config = STRICT
    name: Literal["asha", "none"] = "asha"
    grace_epochs: Annotated[int, Field(ge=1)] = 3
    reduction_factor: Annotated[float, Field(gt=1)] = 3


class Resources(BaseModel):
    """What one trial takes.

    Attributes:
        cpus: CPUs, > 0; also the threads of its PyTorch, rounded up.
        gpus: GPUs, >= 0, a fraction to share one; ``auto`` is as much as a trial was measured to
            need, see ``gpu_share``, or none where there is no GPU.
        max_concurrent: Trials at a time, >= 1; ``null`` is as many as fit.
    """

    model_config = STRICT
    cpus: Annotated[float, Field(gt=0)] = 1
    gpus: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    max_concurrent: Annotated[int, Field(ge=1)] | None = None


class Override(BaseModel):
    """Settings of some studies that differ from those of all.

    Attributes:
        datasets: Of which datasets; ``null`` is all of them. The same for ``models`` and ``losses``.
        training: Keys of ``training`` with their values there.
        model_parameters: The same for ``model_parameters``.
        metric: What selects the best epoch there.
    """

    model_config = STRICT
    datasets: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    losses: tuple[str, ...] | None = None
    training: dict[str, Any] = {}
    model_parameters: dict[str, ParameterValue] = {}
    metric: str | None = None

    def concerns(self, dataset: str, model: str, loss: str) -> bool:
        """Say whether a study is one of those meant."""
        named = ((self.datasets, dataset), (self.models, model), (self.losses, loss))
        return all(names is None or name in names for names, name in named)


class Budget(BaseModel):
    """When a search ends although trials are left; the first limit that is reached ends it.

    Attributes:
        hours: Of wall-clock time, all starts together, > 0.
        gpu_hours: GPUs of a trial times the hours that it ran, over all trials, > 0.
        target: Value of ``search.metric`` that is good enough, once a trial that has finished has it.
        plateau: Ended trials in a row, over a whole study, without a better best value, >= 1.
    """

    model_config = STRICT
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    gpu_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    target: Annotated[float, Field(allow_inf_nan=False)] | None = None
    plateau: Annotated[int, Field(ge=1)] | None = None


class Patience(BaseModel):
    """What is put up with before a trial is given up.

    Attributes:
        epoch_minutes: A trial that reports nothing for so long has hung and is ended, > 0.
        memory_retries: How often a trial that ran out of memory is tried again, with fewer at a time, >= 0.
    """

    model_config = STRICT
    epoch_minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60
    memory_retries: Annotated[int, Field(ge=0)] = 2


class Confirm(BaseModel):
    """What is trained again before a winner is named.

    Attributes:
        top: The best so many of each study, >= 1.
        seeds: Each with so many seeds that the search has not used, >= 2.
        baseline: Loss with which the winner is compared; ``null`` is the published settings that did best on the
            dataset in the search, which are confirmed as well.
    """

    model_config = STRICT
    top: Annotated[int, Field(ge=1)] = 3
    seeds: Annotated[int, Field(ge=2)] = 5
    baseline: str | None = None
