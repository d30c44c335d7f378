"""``search --dry-run``: where each study looks, what it would try first, and what all of it would take.

Nothing runs and nothing is written. What is timed is a few steps of one training of each loss, in this process.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.experiment import Cell, Experiment
from orchestrator.forecast import Concurrency, Forecast, StudyLoad, forecast, limit_concurrency
from orchestrator.gpu_share import choose_share, describe_limit
from orchestrator.population import moving_trials
from orchestrator.workload import Training
from search_spaces import Range, Suggestion, Values
from trainables.config import TrialConfig

if TYPE_CHECKING:
    from trainables.pace import Pace

POINTS = 10
"""Of each study that are shown; as many as it has trials, if those are fewer."""


@dataclass(frozen=True)
class StudyPlan:
    """A study as it would be searched.

    Attributes:
        study: Its name.
        trials: Of its search.
        epochs: Of a whole trial.
        space: Parameter -> where it lies, in words.
        points: The first of its trials, while nothing is known of their results: ``params`` by the names of the space,
            and the ``loss``, ``loss_parameters``, ``training`` and ``model_parameters`` that they stand for.
        epoch_seconds: Measured, beside the trials that are fused with it; of several losses the mean.
    """

    study: str
    trials: int
    epochs: int
    space: Mapping[str, str]
    points: tuple[Mapping[str, Any], ...]
    epoch_seconds: float


@dataclass(frozen=True)
class DryRun:
    """All that is known beforehand.

    Attributes:
        notes: What else a person should know before it runs, a sentence each.
    """

    experiment: str
    studies: tuple[StudyPlan, ...]
    concurrency: Concurrency
    forecast: Forecast
    device: str
    budget: Mapping[str, float | None]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return asdict(self)


def dry_run(experiment: Experiment, workload: Training) -> DryRun:
    """Describe a search without running it.

    Raises:
        DataError: If a dataset is missing or damaged.
    """
    workload.check(experiment)
    cells = experiment.cells()
    paces = [_paces(experiment, cell, workload.pace) for cell in cells]
    fuse, slower = _fusion(experiment, workload)
    plans = tuple(_plan(experiment, *each) for each in zip(cells, paces, slower, strict=True))
    datasets = [cell.dataset for cell in cells]
    loads = [
        StudyLoad(
            plan.study,
            plan.trials,
            _confirmations(experiment, plan, is_first_of_dataset=dataset not in datasets[:number]),
            plan.epochs,
            plan.epoch_seconds,
        )
        for number, (plan, dataset) in enumerate(zip(plans, datasets, strict=True))
    ]
    machine = _machine()
    gpus = _gpus(experiment, workload, machine, fuse)
    concurrency = limit_concurrency(experiment.resources, gpus, machine, sum(plan.trials for plan in plans), fuse)
    limit = describe_limit(experiment.resources, gpus, machine)
    return DryRun(
        experiment=experiment.name,
        studies=plans,
        concurrency=concurrency,
        forecast=forecast(loads, experiment.scheduler, concurrency),
        device=paces[0][0].device,
        budget={"hours": experiment.budget.hours, "gpu_hours": experiment.budget.gpu_hours},
        notes=(*([limit] if limit else []), *_describe_population(experiment)),
    )


def sample_points(experiment: Experiment, cell: Cell, count: int) -> list[dict[str, Any]]:
    """Return the first points of a study: the published ones, then what the sampler draws, told nothing."""
    from orchestrator.searcher import Study

    trials = experiment.trials_in(cell)
    study = Study(cell, experiment.search, trials)
    asked = [study.ask() for _ in range(min(count, trials))]
    return [{"params": dict(params), **_stands_for(suggestion)} for params, suggestion in asked]


def describe_bound(bound: Range | Values) -> str:
    """Return in words where a parameter lies."""
    if isinstance(bound, Values):
        return ", ".join(str(value) for value in bound.values)
    kind = "whole numbers, " if bound.whole else ""
    return f"{kind}{bound.low:g} to {bound.high:g}{', log-uniform' if bound.log else ''}"


def _plan(experiment: Experiment, cell: Cell, paces: list["Pace"], slower: float) -> StudyPlan:
    return StudyPlan(
        study=cell.name,
        trials=experiment.trials_in(cell),
        epochs=cell.training.total_epochs,
        space={name: describe_bound(bound) for name, bound in cell.space.bounds().items()},
        points=tuple(sample_points(experiment, cell, POINTS)),
        epoch_seconds=slower * sum(pace.epoch_seconds for pace in paces) / len(paces),
    )


def _stands_for(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "loss": suggestion.loss,
        "loss_parameters": dict(suggestion.loss_parameters),
        "training": dict(suggestion.training),
        "model_parameters": dict(suggestion.model_parameters),
    }


def _paces(experiment: Experiment, cell: Cell, pace: Callable[[TrialConfig], "Pace"]) -> list["Pace"]:
    """Time each loss of a study with its own defaults, and what the experiment has beside them."""
    suggestions = [Suggestion(loss, part.fixed) for loss, part in cell.space.losses.items()]
    return [pace(experiment.suggested(cell, suggestion)) for suggestion in suggestions]


def _confirmations(experiment: Experiment, plan: StudyPlan, is_first_of_dataset: bool) -> int:
    """Return the trainings that confirm a study at most; each dataset has its baseline among them as well."""
    confirm = experiment.confirm
    return 0 if confirm is None else (min(confirm.top, plan.trials) + is_first_of_dataset) * confirm.seeds


def _machine() -> dict[str, float]:
    """Return what this machine has, in Ray's terms."""
    import torch

    return {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}


def _fusion(experiment: Experiment, workload: Training) -> tuple[int, list[float]]:
    """Return how many trials are fused, as asked for or measured, and how much slower an epoch of each study's is."""
    from trainables.fused_pace import SIZES, choose_fusion

    wanted, cells = experiment.resources.fuse, experiment.cells()
    if wanted == 1:
        return 1, [1.0] * len(cells)
    sizes = SIZES if wanted == "auto" else (wanted,)
    measured = [workload.rates(experiment.trial_config(cell, {}), sizes) for cell in cells]
    fuse = min(map(choose_fusion, measured)) if wanted == "auto" else wanted
    # Where so many could not be stacked they take turns.
    return fuse, [fuse * rates[1] / rates.get(fuse, rates[1]) for rates in measured]


def _gpus(experiment: Experiment, workload: Training, machine: Mapping[str, float], fuse: int) -> float:
    """Return what a trial, or those that are fused, get of a GPU: as asked for, or measured."""
    wanted = experiment.resources.gpus
    if wanted != "auto":
        return wanted
    if machine["GPU"] and fuse > 1:
        return 1.0
    cells = experiment.cells() if machine["GPU"] else []
    return choose_share(workload.measure(experiment.trial_config(cell, {})) for cell in cells) if cells else 0.0


def _describe_population(experiment: Experiment) -> list[str]:
    rules, trials = experiment.scheduler, experiment.search.trials
    if rules.name != "pbt":
        return []
    moving = moving_trials(rules, trials)
    return [
        f"every {rules.perturbation_epochs} epochs the worst {moving} of {trials} trials of a study go on from the "
        f"best {moving}, with hyper-parameters near theirs"
    ]
