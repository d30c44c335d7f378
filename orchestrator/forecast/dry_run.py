"""``search --dry-run``: the space of each study, its first points, and the time that the search would take.

No trial runs and nothing is written. This process times a few steps of one training of each loss.
"""

import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.experiment.sections import Budget, Resources
from orchestrator.forecast.time_left import PlannedWork, expected_epochs
from orchestrator.journal.history import History
from orchestrator.journal.trial import PriorPoint
from orchestrator.machines.cluster import Node, check_fits
from orchestrator.machines.gpu_share import choose_share, describe_fusion, describe_limit
from orchestrator.workload.training import TrainablesWorkload
from search_spaces import Range, Suggestion, Values
from trainables.config import TrialConfig

if TYPE_CHECKING:
    from trainables.cost import Pace

POINTS = 10
"""Most points of each study that are shown."""


@dataclass(frozen=True)
class StudyPlan:
    """A study as it would be searched.

    Attributes:
        epochs: Epochs of a whole trial.
        space: Parameter -> its bounds, in words.
        points: The first points, suggested without any results, see ``sample_points``.
        epoch_seconds: Measured, beside the trials that are fused with the trial; the mean of several losses.
        expected_epochs: Mean epochs of a trial of the search, see ``expected_epochs``.
    """

    study: str
    trials: int
    epochs: int
    space: Mapping[str, str]
    points: tuple[Mapping[str, Any], ...]
    epoch_seconds: float
    expected_epochs: float


@dataclass(frozen=True)
class Concurrency:
    """How many trials run at once.

    Attributes:
        trials: How many; at least 1 if any trial can run.
        limited_by: The resource or setting that keeps further trials from running.
        gpus: The part of a GPU that a trial gets.
        fuse: Most trials that are trained as one stacked model.
        together: Trials that are trained as one stacked model; fewer than ``fuse`` if fewer run at once.
    """

    trials: int
    limited_by: str
    gpus: float
    fuse: int = 1
    together: int = 1


@dataclass(frozen=True)
class Forecast:
    """Trials, epochs and hours of all studies together.

    Attributes:
        trials: Trials of the search.
        confirmations: Trainings that confirm, at most.
        evaluated: Models that are evaluated on test, at most.
        epochs: Epochs that the scheduler is expected to let run; ``epochs_at_most`` if none can be expected.
        epochs_at_most: Epochs if the scheduler stops no trial.
        stages: ``search``, ``confirm`` and ``test`` -> hours of ``epochs`` and of the evaluation on test.
        hours: The sum of ``stages``.
        hours_at_most: Hours of ``epochs_at_most`` and of the evaluation on test.
        gpu_hours: Share of a GPU times hours, over all trials, for ``epochs``.
        gpu_hours_at_most: GPU hours of ``epochs_at_most``.
        search_gpu_hours: The part of ``gpu_hours`` that the search takes.
    """

    trials: int
    confirmations: int
    evaluated: int
    epochs: int
    epochs_at_most: int
    stages: Mapping[str, float]
    hours: float
    hours_at_most: float
    gpu_hours: float
    gpu_hours_at_most: float
    search_gpu_hours: float


def forecast(
    experiment: Experiment, lengths: Mapping[str, float], evaluation: float, concurrency: Concurrency
) -> Forecast:
    """Add up the studies; trainings that confirm are never stopped early, and no budget ends the search.

    Hours assume that trials side by side are as fast as a trial alone, and leave out the start of trials (0.2 s each).
    ``lengths`` are the seconds of an epoch by study, ``evaluation`` those of the evaluation of a model on test.
    """
    unlimited, gpus = experiment.model_copy(update={"budget": Budget()}), concurrency.gpus * concurrency.trials
    usual, most = (PlannedWork(unlimited, lengths, evaluation, at_most=at_most) for at_most in (False, True))
    left, left_at_most = (work.left(History(), concurrency.trials).stages for work in (usual, most))
    stages = {stage: left.get(stage, 0.0) / 3600 for stage in ("search", "confirm", "test")}
    hours_at_most = sum(left_at_most.values()) / 3600
    cells = experiment.cells()
    epochs, epochs_at_most = (
        sum(
            experiment.trials_in(cell) * work.epochs[cell.name]
            + work.confirmations[cell.name] * cell.training.total_epochs
            for cell in cells
        )
        for work in (usual, most)
    )
    return Forecast(
        trials=sum(experiment.trials_in(cell) for cell in cells),
        confirmations=sum(usual.confirmations.values()),
        evaluated=usual.models,
        epochs=round(epochs),
        epochs_at_most=round(epochs_at_most),
        stages=stages,
        hours=sum(stages.values()),
        hours_at_most=hours_at_most,
        gpu_hours=(stages["search"] + stages["confirm"]) * gpus,
        gpu_hours_at_most=(hours_at_most - stages["test"]) * gpus,
        search_gpu_hours=stages["search"] * gpus,
    )


def limit_concurrency(
    wanted: Resources, gpus: float, available: Mapping[str, float], trials: int, fuse: int = 1
) -> Concurrency:
    """Return how many trials run at once, and which limit is reached first; of equal limits, the resource.

    Args:
        wanted: The section of the experiment.
        gpus: The part of a GPU that a trial, or a group of fused trials, gets, >= 0.
        available: ``CPU`` and ``GPU`` of all machines together.
        trials: Number of all trials, >= 1.
        fuse: So many trials share ``wanted.cpus`` and ``gpus``, >= 1.
    """
    # Rounded as Ray rounds, so that a rounding error of a share loses no trial.
    limits = {"CPUs": fuse * int(available.get("CPU", 0) / wanted.cpus + 1e-6)}
    if gpus > 0:
        limits = {"GPUs": fuse * int(available.get("GPU", 0) / gpus + 1e-6), **limits}
    if wanted.max_concurrent is not None:
        limits["resources.max_concurrent"] = wanted.max_concurrent
    limits["the number of trials"] = trials
    name = min(limits, key=lambda limit: limits[limit])
    trials = limits[name]
    # Ray fills one GPU before it takes the next GPU; on CPUs, as many stacks begin as there is room for.
    stacks = 1 if gpus > 0 else int(available.get("CPU", 0) / wanted.cpus + 1e-6)
    return Concurrency(trials, name, gpus / fuse, fuse, min(fuse, math.ceil(trials / max(1, stacks))))


@dataclass(frozen=True)
class DryRun:
    """All that is known before a search.

    Attributes:
        notes: Further sentences for people.
    """

    experiment: str
    studies: tuple[StudyPlan, ...]
    concurrency: Concurrency
    forecast: Forecast
    device: str
    budget: Mapping[str, float | None]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def dry_run(
    experiment: Experiment,
    workload: TrainablesWorkload,
    prior: Mapping[str, Sequence[PriorPoint]] = MappingProxyType({}),
) -> DryRun:
    """Describe a search without running it; ``prior`` is that of ``studies.prior.read_prior``.

    Raises:
        ConfigError: If a trial asks for more than this machine has.
        DataError: If a dataset is missing or damaged.
    """
    workload.check(experiment)
    machine, wanted = _machine(), experiment.resources
    gpus_at_least = 0.0 if wanted.gpus == "auto" else wanted.gpus
    check_fits(wanted.cpus, gpus_at_least, [Node(platform.node(), machine["CPU"], machine["GPU"])])
    from trainables.cost import choose_fusion

    cells = experiment.cells()
    paces = [_paces(experiment, cell, workload.pace) for cell in cells]
    rates = _rates(experiment, workload)
    fusions = {study: choose_fusion(found) for study, found in rates.items()}
    fuse = min(fusions.values()) if wanted.fuse == "auto" else wanted.fuse
    gpus = _gpus(experiment, workload, machine, fuse)
    trials = sum(experiment.trials_in(cell) for cell in cells)
    concurrency = limit_concurrency(wanted, gpus, machine, trials, fuse)
    slower = _slower(experiment, workload, rates, concurrency.together)
    priors = [prior.get(cell.name, ()) for cell in cells]
    plans = tuple(
        _plan(experiment, cell, timed, factor, points)
        for cell, timed, factor, points in zip(cells, paces, slower, priors, strict=True)
    )
    limits = describe_limit(wanted, gpus, machine, fuse), describe_fusion(fusions)
    # The queries of val are ranked as well.
    evaluation = fmean(2 * max(pace.evaluation_seconds for pace in timed) for timed in paces)
    return DryRun(
        experiment=experiment.name,
        studies=plans,
        concurrency=concurrency,
        forecast=forecast(experiment, {plan.study: plan.epoch_seconds for plan in plans}, evaluation, concurrency),
        device=paces[0][0].device,
        budget={"hours": experiment.budget.hours, "gpu_hours": experiment.budget.gpu_hours},
        notes=(*filter(None, limits), *_describe_race(experiment), *overlaps(experiment)),
    )


def sample_points(
    experiment: Experiment, cell: Cell, count: int, prior: Sequence[PriorPoint] = ()
) -> list[dict[str, Any]]:
    """Return the first points of a study: published points and points from elsewhere, then points that are drawn.

    Returns:
        Plain values for JSON: ``params`` by the names of the space, and what they mean: ``loss``, ``loss_parameters``,
        ``training`` and ``model_parameters``; a point of ``search.prior`` has its ``source``, a study.
    """
    from orchestrator.studies.study import Study

    trials = experiment.trials_in(cell)
    study = Study(cell, experiment.search, trials, prior=prior)
    drawn = [study.draw(partial(experiment.suggested, cell)) for _ in range(min(count, trials))]
    begins = len(cell.space.first_points()) + len(cell.enqueued)
    sources = {begins + place: {"source": one.source} for place, one in enumerate(prior)}
    return [
        {"params": dict(one.params), **asdict(one.suggestion), **sources.get(number, {})}
        for number, one in enumerate(drawn)
    ]


def describe_bound(bound: Range | Values) -> str:
    """Return the bounds of a parameter in words."""
    if isinstance(bound, Values):
        return ", ".join(str(value) for value in bound.values)
    kind = "whole numbers, " if bound.whole else ""
    return f"{kind}{bound.low:g} to {bound.high:g}{', log-uniform' if bound.log else ''}"


def _plan(
    experiment: Experiment, cell: Cell, paces: list["Pace"], slower: float, prior: Sequence[PriorPoint]
) -> StudyPlan:
    return StudyPlan(
        study=cell.name,
        trials=experiment.trials_in(cell),
        epochs=cell.training.total_epochs,
        space={name: describe_bound(bound) for name, bound in cell.space.bounds().items()},
        points=tuple(sample_points(experiment, cell, POINTS, prior)),
        epoch_seconds=slower * sum(pace.epoch_seconds for pace in paces) / len(paces),
        expected_epochs=expected_epochs(cell.training.total_epochs, cell.scheduler),
    )


def _paces(experiment: Experiment, cell: Cell, pace: Callable[[TrialConfig], "Pace"]) -> list["Pace"]:
    """Time each loss of a study with its defaults and the settings of the experiment."""
    suggestions = [Suggestion(loss, part.fixed) for loss, part in cell.space.losses.items()]
    return [pace(experiment.suggested(cell, suggestion)) for suggestion in suggestions]


def _machine() -> dict[str, float]:
    """Return the CPUs and GPUs of this machine, by Ray's names."""
    import torch

    return {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}


def _rates(experiment: Experiment, workload: TrainablesWorkload) -> dict[str, Mapping[int, float]]:
    """Time fused trials of each study, if the best number of fused trials is to be found."""
    if experiment.resources.fuse != "auto":
        return {}
    return {cell.name: workload.rates(experiment.trial_config(cell, {})) for cell in experiment.cells()}


def _slower(
    experiment: Experiment, workload: TrainablesWorkload, rates: Mapping[str, Mapping[int, float]], together: int
) -> list[float]:
    """Return the factor by which an epoch of each study takes longer if a number of trials train together."""
    if together == 1:
        return [1.0] * len(experiment.cells())
    slower = []
    for cell in experiment.cells():
        found = rates.get(cell.name, {})
        if together not in found:
            found = workload.rates(experiment.trial_config(cell, {}), (together,))
        # Trials that could not be stacked take turns.
        slower.append(together * found[1] / found.get(together, found[1]))
    return slower


def _gpus(experiment: Experiment, workload: TrainablesWorkload, machine: Mapping[str, float], fuse: int) -> float:
    """Return the share of a GPU for a trial, or for a group of fused trials: as asked for, or measured."""
    wanted = experiment.resources.gpus
    if wanted != "auto":
        return wanted
    if machine["GPU"] and fuse > 1:
        return 1.0
    cells = experiment.cells() if machine["GPU"] else []
    return choose_share(workload.measure(experiment.trial_config(cell, {})) for cell in cells) if cells else 0.0


def _describe_race(experiment: Experiment) -> list[str]:
    confirm = experiment.confirm
    if confirm is None or confirm.trainings is None:
        return []
    return [
        f"the best {confirm.top} of each study and the baseline race for at most {confirm.trainings} trainings on "
        f"each dataset; a race that is decided ends before"
    ]
