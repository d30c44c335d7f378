"""``search --dry-run``: the space of each study, its first points, and the time that the search would take.

No trial runs and nothing is written. This process times a few steps of one training of each loss.
"""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.forecast.forecast import Concurrency, Forecast, StudyLoad, forecast, limit_concurrency
from orchestrator.journal.trial import PriorPoint
from orchestrator.machines.cluster import Node, check_fits
from orchestrator.machines.gpu_share import choose_share, describe_fusion, describe_limit
from orchestrator.studies.pbt import moving_trials
from orchestrator.workload.training import TrainablesWorkload
from search_spaces import Range, Suggestion, Values
from trainables.config import TrialConfig

if TYPE_CHECKING:
    from trainables.cost.pace import Pace

NO_PRIOR: Mapping[str, Sequence[PriorPoint]] = MappingProxyType({})

POINTS = 10
"""Most points of each study that are shown."""


@dataclass(frozen=True)
class FirstPoint:
    """A suggestion of a study's sampler for one of its first trials.

    Attributes:
        params: Parameters by the names of the space.
        loss: The loss that ``params`` stand for.
        loss_parameters: The arguments of the loss that ``params`` stand for.
        training: The keys of the training that ``params`` stand for.
        model_parameters: The arguments of the model that ``params`` stand for.
        source: The study of another dataset that ``search.prior`` took the point from.
    """

    params: Mapping[str, Any]
    loss: str
    loss_parameters: Mapping[str, Any]
    training: Mapping[str, Any]
    model_parameters: Mapping[str, Any]
    source: str | None = None


@dataclass(frozen=True)
class StudyPlan:
    """A study as it would be searched.

    Attributes:
        study: Name of the study.
        trials: Number of trials of the study.
        epochs: Epochs of a whole trial.
        space: Parameter -> its bounds, in words.
        points: The first points, suggested without any results.
        epoch_seconds: Measured, beside the trials that are fused with the trial; the mean of several losses.
    """

    study: str
    trials: int
    epochs: int
    space: Mapping[str, str]
    points: tuple[FirstPoint, ...]
    epoch_seconds: float


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
    experiment: Experiment, workload: TrainablesWorkload, prior: Mapping[str, Sequence[PriorPoint]] = NO_PRIOR
) -> DryRun:
    """Describe a search without running it.

    Args:
        experiment: The experiment.
        workload: Code that its trials run.
        prior: Study -> settings from elsewhere that it tries first, see ``studies.prior``.

    Raises:
        ConfigError: If a trial asks for more than this machine has.
        DataError: If a dataset is missing or damaged.
    """
    workload.check(experiment)
    machine, wanted = _machine(), experiment.resources
    gpus_at_least = 0.0 if wanted.gpus == "auto" else wanted.gpus
    check_fits(wanted.cpus, gpus_at_least, [Node(platform.node(), machine["CPU"], machine["GPU"])])
    cells = experiment.cells()
    paces = [_paces(experiment, cell, workload.pace) for cell in cells]
    rates = _rates(experiment, workload)
    fusions = _fusions(rates)
    fuse = min(fusions.values()) if wanted.fuse == "auto" else wanted.fuse
    gpus = _gpus(experiment, workload, machine, fuse)
    trials = sum(experiment.trials_in(cell) for cell in cells)
    concurrency = limit_concurrency(wanted, gpus, machine, trials, fuse)
    slower = _slower(experiment, workload, rates, concurrency.together)
    priors = [prior.get(cell.name, ()) for cell in cells]
    plans = tuple(_plan(experiment, *each) for each in zip(cells, paces, slower, priors, strict=True))
    confirmations = experiment.most_confirmations()
    firsts = {cell.dataset: cell.name for cell in reversed(cells)}
    loads = [
        StudyLoad(
            plan.study,
            plan.trials,
            confirmations[cell.name],
            plan.epochs,
            plan.epoch_seconds,
            cell.scheduler,
            # Without a confirmation, the winner of each dataset is evaluated.
            confirmations[cell.name] if experiment.confirm else int(cell.name in firsts.values()),
            # The queries of val are ranked as well.
            2 * max(pace.evaluation_seconds for pace in measured),
        )
        for plan, cell, measured in zip(plans, cells, paces, strict=True)
    ]
    return DryRun(
        experiment=experiment.name,
        studies=plans,
        concurrency=concurrency,
        forecast=forecast(loads, concurrency),
        device=paces[0][0].device,
        budget={"hours": experiment.budget.hours, "gpu_hours": experiment.budget.gpu_hours},
        notes=_notes(experiment, describe_limit(wanted, gpus, machine, fuse), describe_fusion(fusions)),
    )


def sample_points(experiment: Experiment, cell: Cell, count: int, prior: Sequence[PriorPoint] = ()) -> list[FirstPoint]:
    """Return the first points of a study: published points and points from elsewhere, then points that are drawn."""
    from orchestrator.studies.study import Study

    trials = experiment.trials_in(cell)
    study = Study(cell, experiment.search, trials, prior=prior)
    asked = [study.ask() for _ in range(min(count, trials))]
    sources = {
        len(cell.space.first_points()) + len(cell.enqueued) + place: one.source for place, one in enumerate(prior)
    }
    return [
        FirstPoint(
            dict(params),
            one.loss,
            dict(one.loss_parameters),
            dict(one.training),
            dict(one.model_parameters),
            sources.get(number),
        )
        for number, (params, one) in enumerate(asked)
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


def _fusions(rates: Mapping[str, Mapping[int, float]]) -> dict[str, int]:
    """Return how many trials of each study train fastest at once."""
    from trainables.cost.fused_pace import choose_fusion

    return {study: choose_fusion(found) for study, found in rates.items()}


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


def _notes(experiment: Experiment, *limits: str | None) -> tuple[str, ...]:
    return (
        *filter(None, limits),
        *_describe_population(experiment),
        *_describe_race(experiment),
        *overlaps(experiment),
    )


def _describe_race(experiment: Experiment) -> list[str]:
    confirm = experiment.confirm
    if confirm is None or confirm.trainings is None:
        return []
    return [
        f"the best {confirm.top} of each study and the baseline race for at most {confirm.trainings} trainings on "
        f"each dataset; a race that is decided ends before"
    ]


def _describe_population(experiment: Experiment) -> list[str]:
    rules, trials = experiment.scheduler, experiment.search.trials
    if rules.name != "pbt":
        return []
    moving = moving_trials(rules, trials)
    return [
        f"every {rules.perturbation_epochs} epochs the worst {moving} of {trials} trials of a study resume from the "
        f"best {moving}, with hyper-parameters near theirs"
    ]
