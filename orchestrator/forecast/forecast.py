"""Trials, epochs and hours of a search, calculated before it runs, and the limit of trials that run at once.

``dry_run`` measures the durations that this module uses.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.experiment.sections import Resources, Scheduler


@dataclass(frozen=True)
class StudyLoad:
    """The trials of a study.

    Attributes:
        study: Name of the study.
        trials: Number of trials of the study.
        confirmations: Trainings that confirm the study.
        epochs: Epochs of a whole trial.
        epoch_seconds: Measured duration of an epoch, under the load of the machine at that moment.
        scheduler: The rules that stop trials of the search early.
        evaluated: Models of the study that are evaluated on test.
        evaluation_seconds: Measured duration of the evaluation of a model on test.
    """

    study: str
    trials: int
    confirmations: int
    epochs: int
    epoch_seconds: float
    scheduler: Scheduler
    evaluated: int = 0
    evaluation_seconds: float = 0.0


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
        epochs: Epochs that the scheduler is expected to let run; ``epochs_at_most`` if none can be expected.
        epochs_at_most: Epochs if the scheduler stops no trial.
        hours: Wall-clock hours of ``epochs`` and of the evaluation on test.
        hours_at_most: Wall-clock hours of ``epochs_at_most`` and of the evaluation on test.
        gpu_hours: Share of a GPU times hours, over all trials, for ``epochs``.
        gpu_hours_at_most: GPU hours of ``epochs_at_most``.
        search_hours: The part of ``hours`` that the search takes; no budget limits the trainings of a confirmation.
        search_gpu_hours: The part of ``gpu_hours`` that the search takes.
        evaluated: Models that are evaluated on test, at most.
        test_hours: The part of ``hours`` in which these models are evaluated, one after the other.
    """

    trials: int
    confirmations: int
    epochs: int
    epochs_at_most: int
    hours: float
    hours_at_most: float
    gpu_hours: float
    gpu_hours_at_most: float
    search_hours: float
    search_gpu_hours: float
    evaluated: int
    test_hours: float

    @property
    def confirm_hours(self) -> float:
        """The part of ``hours`` that the confirmation takes."""
        return max(0.0, self.hours - self.search_hours - self.test_hours)


def forecast(loads: Sequence[StudyLoad], concurrency: Concurrency) -> Forecast:
    """Add up the studies; trainings that confirm are never stopped early.

    Hours assume that trials side by side are as fast as a trial alone, and leave out the start of trials (0.2 s each).
    """
    most = [(load.trials + load.confirmations) * load.epochs for load in loads]
    searched = [load.trials * expected_epochs(load.epochs, load.scheduler) for load in loads]
    usual = [epochs + load.confirmations * load.epochs for epochs, load in zip(searched, loads, strict=True)]
    hours_at_most, hours, search_hours = (
        sum(epochs * load.epoch_seconds / 3600 for epochs, load in zip(each, loads, strict=True))
        for each in (most, usual, searched)
    )
    test_hours = sum(load.evaluated * load.evaluation_seconds / 3600 for load in loads)
    return Forecast(
        trials=sum(load.trials for load in loads),
        confirmations=sum(load.confirmations for load in loads),
        epochs=round(sum(usual)),
        epochs_at_most=sum(most),
        hours=hours / concurrency.trials + test_hours,
        hours_at_most=hours_at_most / concurrency.trials + test_hours,
        gpu_hours=hours * concurrency.gpus,
        gpu_hours_at_most=hours_at_most * concurrency.gpus,
        search_hours=search_hours / concurrency.trials,
        search_gpu_hours=search_hours * concurrency.gpus,
        evaluated=sum(load.evaluated for load in loads),
        test_hours=test_hours,
    )


def expected_epochs(epochs: int, scheduler: Scheduler) -> float:
    """Return the mean epochs of a trial under ASHA, where one in ``reduction_factor`` passes each rung.

    The mean is too low for few trials, because the first trials pass each rung. For other schedulers it is all epochs,
    because the trials that these schedulers stop depend on the curves.

    Example:
        >>> round(expected_epochs(9, Scheduler(name="asha", grace_epochs=1, reduction_factor=3)), 2)
        2.33
    """
    if scheduler.name != "asha":
        return float(epochs)
    rung, reached, passing, mean = float(scheduler.grace_epochs), 0.0, 1.0, 0.0
    while reached < epochs:
        mean += passing * (min(rung, epochs) - reached)
        reached = min(rung, epochs)
        rung *= scheduler.reduction_factor
        passing /= scheduler.reduction_factor
    return mean


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
