"""The sections of an experiment's YAML file, each with its ranges; unknown keys are refused."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from orchestrator.config_files import STRICT, validate
from orchestrator.config_problems import short
from orchestrator.measures import COUNTS, METRICS
from search_spaces import SPACES
from search_spaces.space import check_name
from trainables.config import FEATURES, ParameterValue, TrainingConfig
from trainables.errors import ConfigError, Mistakes

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""What an experiment or a suite can be called: the name is that of a folder, and goes into the names of MLflow."""

SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hours": 3600, "d": 86400, "days": 86400}
"""Units that people write behind a duration."""


def known(names: Sequence[str]) -> Any:
    """Return what goes beside ``str`` for a text that must be one of some names; an editor offers them.

    Args:
        names: In the order in which they are listed.
    """

    def check(name: str) -> str:
        check_name(name, names, "known")
        return name

    return AfterValidator(check), Field(json_schema_extra={"enum": list(names)})


def _check_name_of_folder(name: str) -> str:
    if re.match(NAME, name):
        return name
    odd = next((character for character in name if not re.match(r"[A-Za-z0-9._-]", character)), None)
    got = f"of {len(name)} characters" if len(name) > 100 else repr(name)
    if odd is not None:
        got += f", where {odd!r} is none of these"
    raise ValueError(
        f"must be 1 to 100 letters (A-Z, a-z), digits, '.', '_' and '-', the first a letter or digit, got {got}"
    )


class _TrainingSection(BaseModel):
    model_config = STRICT
    training: TrainingConfig


def check_training(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings whose names, types and ranges are those of ``training``.

    Raises:
        ConfigError: Naming each setting that is refused.
    """
    try:
        validate(_TrainingSection, {"training": changes}, "")
    except ConfigError as error:
        raise ConfigError(
            [problem.removeprefix(": ").removeprefix("training.") for problem in error.problems]
        ) from None
    return changes


def _in_unit(unit: str) -> Callable[[Any], Any]:
    """Return a check that tells how a duration with a unit behind it is written as a number of the key's unit."""

    def check(value: Any) -> Any:
        found = re.match(r"^([0-9.]+) ?([a-z]+)$", value) if isinstance(value, str) else None
        if found is None or found[2] not in SECONDS:
            return value
        number = float(found[1]) * SECONDS[found[2]] / SECONDS[unit]
        raise ValueError(f"must be a number of {UNITS[unit]} without a unit: for {value} write {number:g}")

    return check


def _as_bound(value: Any) -> Any:
    """Refuse what is neither a range nor listed values, with both ways to write it; JSON's lists become tuples."""
    ways = "[LOW, HIGH] is a range, {values: [A, B]} are values one by one"
    if isinstance(value, dict) and value.keys() == {"values"} and isinstance(value["values"], list):
        return {"values": tuple(tuple(one) if isinstance(one, list) else one for one in value["values"])}
    if isinstance(value, dict) and "values" not in value:
        low, high = (next((value[key] for key in keys if key in value), None) for keys in (LOWS, HIGHS))
        example = "" if None in (low, high) else f": write [{short(low)}, {short(high)}]"
        log = "; the scale, logarithmic or not, is the parameter's own" if "log" in value else ""
        raise ValueError(f"a range has no keys {', '.join(value)}{example}; {ways}{log}")
    if isinstance(value, list) and len(value) != 2:
        raise ValueError(f"a range has two ends, got {short(value)}; {ways}")
    if isinstance(value, int | float):
        raise ValueError(
            f"one value, {short(value)}, is nothing to search; {ways}; a parameter of the loss that stands still goes "
            f"under search.fixed.LOSS, a setting under training, a parameter of the model under model_parameters"
        )
    return tuple(value) if isinstance(value, list) else value


UNITS = {"h": "hours", "min": "minutes"}
LOWS, HIGHS = ("min", "low", "lower", "from"), ("max", "high", "upper", "to")

Name = Annotated[str, AfterValidator(_check_name_of_folder), Field(json_schema_extra={"pattern": NAME})]
ModelName = Annotated[str, *known(tuple(FEATURES))]
LossName = Annotated[str, *known(tuple(SPACES))]
Metric = Annotated[str, *known(tuple(METRICS))]
Goal = Annotated[str, *known((*METRICS, *COUNTS))]
Hours = Annotated[float, Field(gt=0), BeforeValidator(_in_unit("h"))]
TrainingChange = Annotated[dict[str, Any], AfterValidator(check_training)]
Minutes = Annotated[float, Field(gt=0), BeforeValidator(_in_unit("min"))]


class Objective(BaseModel):
    """What a search is after.

    Attributes:
        metric: A metric or a COCOS count, at the trial's best epoch.
        direction: ``maximize`` or ``minimize``.
    """

    model_config = STRICT
    metric: Goal
    direction: Literal["maximize", "minimize"] = "maximize"


class ListedValues(BaseModel):
    """Values of a parameter, one by one.

    Attributes:
        values: Numbers, words, truth values or lists of coefficients, each once; at least one.
    """

    model_config = STRICT
    values: Annotated[tuple[ParameterValue, ...], Field(min_length=1)]


Bound = Annotated[tuple[float, float] | ListedValues, BeforeValidator(_as_bound)]
BoundOrDefault = Annotated[tuple[float, float] | ListedValues | Literal["default"], BeforeValidator(_as_bound)]


class Search(BaseModel):
    """How the coefficients are searched.

    Attributes:
        sampler: ``tpe``; ``cmaes``, which adapts a normal distribution to ranges; ``gp``, a Gaussian process, for few
            and costly trials; ``random``; ``qmc``, a Sobol sequence that leaves no gaps; ``grid``, which takes the
            listed values one after the other.
        trials: In each study, >= 1; a loss's published settings come first. A grid may have fewer points than that.
        seed: Of the suggestions and of every training, >= 0.
        metric: What is maximised; a trial counts with its best epoch.
        objectives: Further goals beside ``metric``, each a metric to maximise or ``{metric, direction}``.
        loss: ``each``: a study a loss; ``choose``: the loss is a parameter of one study a dataset and model.
        space: Loss -> parameter -> ``[low, high]`` or ``{values: [...]}``, where the bounds differ from the default.
        training: Setting of ``training`` -> ``[low, high]``, ``{values: [...]}`` or ``default``; searched beside every
            loss.
        model_parameters: Parameter of a model -> ``[low, high]``, ``{values: [...]}`` or ``default``; searched in the
            models that have the parameter.
        fixed: Loss -> parameter -> the one value that the parameter has.
        enqueue: Loss -> points that are tried right after the published ones, each parameter -> value.
        warm_start_from: Experiments, by name under the output or by directory, whose trials the sampler starts from.
    """

    model_config = STRICT
    sampler: Literal["tpe", "cmaes", "gp", "random", "qmc", "grid"] = "tpe"
    trials: Annotated[int, Field(ge=1)] = 16
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    metric: Metric = "val/rsum"
    objectives: tuple[Goal | Objective, ...] = ()
    loss: Literal["each", "choose"] = "each"
    space: dict[LossName, dict[str, Bound]] = {}
    training: dict[str, BoundOrDefault] = {}
    model_parameters: dict[str, BoundOrDefault] = {}
    fixed: dict[LossName, dict[str, ParameterValue]] = {}
    enqueue: dict[LossName, tuple[dict[str, ParameterValue], ...]] = {}
    warm_start_from: tuple[str, ...] = ()

    @property
    def goals(self) -> tuple[Objective, ...]:
        """All objectives, ``metric`` first, each once."""
        further = [Objective(metric=one) if isinstance(one, str) else one for one in self.objectives]
        return (Objective(metric=self.metric), *(one for one in further if one.metric != self.metric))


class Scheduler(BaseModel):
    """What becomes of a trial that is worse than the others of its study.

    Attributes:
        name: ``none``; ``asha``: of the trials that reach a rung, the best go on; ``hyperband``: the same in several
            brackets, of which each begins to judge a rung later, for curves that cross; ``median``: a trial goes on
            while it is no worse than the median of the others at the same epoch; ``pbt``, population-based training:
            none is stopped, the worst go on from the models of the best with other hyper-parameters.
        grace_epochs: No trial ends before this epoch, >= 1.
        reduction_factor: One trial in so many goes on at each rung, > 1; a rung is so many times the one before. For
            ``asha`` and ``hyperband``.
        brackets: Of ``hyperband``, >= 1; trials take turns.
        min_trials: Of ``median``: with fewer others at an epoch nobody is stopped there, >= 1.
        perturbation_epochs: Of ``pbt``: the trials of a study wait for each other after every so many epochs, >= 1.
        quantile: Of ``pbt``: which part of them is replaced there, and by which part, in (0, 0.5]; at least one.
    """

    model_config = STRICT
    name: Literal["none", "asha", "hyperband", "median", "pbt"] = "asha"
    grace_epochs: Annotated[int, Field(ge=1)] = 3
    reduction_factor: Annotated[float, Field(gt=1)] = 3
    brackets: Annotated[int, Field(ge=1)] = 3
    min_trials: Annotated[int, Field(ge=1)] = 3
    perturbation_epochs: Annotated[int, Field(ge=1)] = 2
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25

    def pauses_after(self, epoch: int, total: int) -> bool:
        """Say whether a trial of so many epochs waits after one of them for the others of its study."""
        return self.name == "pbt" and 0 < epoch < total and epoch % self.perturbation_epochs == 0

    @model_validator(mode="after")
    def _check(self) -> "Scheduler":
        used: dict[str, tuple[str, ...]] = {
            "none": (),
            "asha": ("grace_epochs", "reduction_factor"),
            "hyperband": ("grace_epochs", "reduction_factor", "brackets"),
            "median": ("grace_epochs", "min_trials"),
            "pbt": ("perturbation_epochs", "quantile"),
        }
        mistakes = Mistakes()
        for name in dict.fromkeys(name for names in used.values() for name in names):
            if getattr(self, name) != type(self).model_fields[name].default and name not in used[self.name]:
                owners = ", ".join(owner for owner, names in used.items() if name in names)
                mistakes.problems.append(
                    f"scheduler.{name}: a setting of {owners}, but scheduler.name is {self.name}; remove it, or "
                    f"replace the whole section: --set 'scheduler={{name: {self.name}}}'"
                )
        mistakes.refuse()
        return self


class Resources(BaseModel):
    """What one trial takes.

    Attributes:
        cpus: CPUs, > 0; also the threads of its PyTorch, rounded up.
        gpus: GPUs, >= 0, a fraction to share one; ``auto`` is as much as a trial was measured to
            need, or none where there is no GPU.
        fuse: So many trials share those CPUs and GPUs as one stacked model, >= 1; ``auto`` is as many as were measured
            to be fastest, 1 where fusing does not pay.
        max_concurrent: Trials at a time, >= 1; ``null`` is as many as fit.
    """

    model_config = STRICT
    cpus: Annotated[float, Field(gt=0)] = 1
    gpus: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    fuse: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    max_concurrent: Annotated[int, Field(ge=1)] | None = None


class Override(BaseModel):
    """Settings of some studies that differ from those of all.

    Attributes:
        datasets: Of which datasets; ``null`` is all of them.
        models: Of which models; ``null`` is all of them.
        losses: Of which losses; ``null`` is all of them.
        training: Keys of ``training`` with their values in these studies.
        model_parameters: Parameters of the models with their values in these studies.
        metric: What selects the best epoch in these studies.
    """

    model_config = STRICT
    datasets: tuple[str, ...] | None = None
    models: tuple[ModelName, ...] | None = None
    losses: tuple[LossName, ...] | None = None
    training: TrainingChange = {}
    model_parameters: dict[str, ParameterValue] = {}
    metric: Metric | None = None

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
    hours: Hours | None = None
    gpu_hours: Hours | None = None
    target: float | None = None
    plateau: Annotated[int, Field(ge=1)] | None = None


class Patience(BaseModel):
    """What is put up with before a trial is given up.

    Attributes:
        epoch_minutes: A trial that reports nothing for so long has hung and is ended, > 0.
        memory_retries: How often a trial that ran out of memory is tried again, with fewer at a time, >= 0.
    """

    model_config = STRICT
    epoch_minutes: Minutes = 60
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
    baseline: LossName | None = None
