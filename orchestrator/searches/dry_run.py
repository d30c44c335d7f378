"""``search --dry-run``: the space of each study, its first points, and the time that the search would take.

No trial runs and nothing is written. This process times a few steps of one training of each loss.
"""

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import Any

from rich.table import Table
from rich.text import Text

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.experiment.sections import Budget, Resources
from orchestrator.journal.history import History
from orchestrator.journal.trial import PriorPoint
from orchestrator.machines.cluster import Node, check_fits
from orchestrator.machines.gpu_share import choose_share, describe_fusion, describe_limit
from orchestrator.results.search_designs import USUAL, Luck, SearchDesign
from orchestrator.searches.designs import describe_designs, design_table, designs_of
from orchestrator.searches.time_left import PlannedWork, expected_epochs
from orchestrator.text.terminal import make_console, make_table
from orchestrator.text.values import count_text, duration_text, in_digits, value_text
from orchestrator.text.wording import number_text
from orchestrator.workload.training import TrainablesWorkload
from search_spaces import Range, Suggestion, Values
from trainables.allotment import usable_cpus
from trainables.config import TrialConfig

POINTS = 10
"""Most points of each study in the JSON."""

SHOWN = 5
"""Most points of each study in its table, which 100 columns have room for."""


@dataclass(frozen=True)
class StudyPlan:
    """A study as it would be searched.

    Attributes:
        searches: Number of independent searches, each of ``trials`` trials.
        epochs: Epochs of a whole trial.
        space: Parameter -> its bounds, in words.
        points: The first points of the first search, suggested without any results, see ``sample_points``.
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
    searches: int = 1


@dataclass(frozen=True)
class Concurrency:
    """How many trials run at once.

    Attributes:
        trials: How many; at least 1 if any trial can run.
        limited_by: The resource or setting that keeps further trials from running.
        gpus: The part of a GPU that a trial gets.
        fuse: Most trials that are trained in one process.
        together: Trials that are trained in one process; fewer than ``fuse`` if fewer run at once.
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
        confirmations: Trainings that confirm, at most.
        evaluated: Models that are evaluated on test, at most.
        epochs: Epochs that the scheduler is expected to let run; ``epochs_at_most`` if none can be expected.
        epochs_at_most: Epochs if the scheduler stops no trial; likewise hours and GPU hours.
        stages: ``search``, ``confirm`` and ``test`` -> hours of ``epochs`` and of the evaluation on test.
        gpu_hours: Share of a GPU times hours, over all trials.
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

    A trial, or a group of ``fuse`` fused trials, gets ``gpus`` of a GPU, >= 0, and ``wanted.cpus``. ``available`` has
    ``CPU`` and ``GPU`` of all machines together.
    """
    # Rounded as Ray rounds, so that a rounding error of a share loses no trial.
    on_cpus = int(available.get("CPU", 0) / wanted.cpus + 1e-6)
    limits = {"CPUs": fuse * on_cpus}
    if gpus > 0:
        limits = {"GPUs": fuse * int(available.get("GPU", 0) / gpus + 1e-6), **limits}
    if wanted.max_concurrent is not None:
        limits["resources.max_concurrent"] = wanted.max_concurrent
    limits["the number of trials"] = trials
    name = min(limits, key=lambda limit: limits[limit])
    trials = limits[name]
    # Ray fills one GPU before it takes the next GPU; on CPUs, as many stacks begin as there is room for.
    stacks = 1 if gpus > 0 else max(1, on_cpus)
    return Concurrency(trials, name, gpus / fuse, fuse, min(fuse, math.ceil(trials / stacks)))


@dataclass(frozen=True)
class DryRun:
    """All that is known before a search; ``designs`` are repeated searches that cost as much, by the ``luck``."""

    experiment: str
    studies: tuple[StudyPlan, ...]
    concurrency: Concurrency
    forecast: Forecast
    device: str
    budget: Mapping[str, float | None]
    notes: tuple[str, ...] = ()
    designs: tuple[SearchDesign, ...] = ()
    luck: Luck = USUAL


def dry_run(
    experiment: Experiment,
    workload: TrainablesWorkload,
    prior: Mapping[str, Sequence[PriorPoint]] = MappingProxyType({}),
    luck: Luck = USUAL,
) -> DryRun:
    """Describe a search without running it; ``prior`` is that of ``studies.past_searches.read_prior``.

    ``luck`` is that of repeated searches, where an earlier experiment has measured it.

    Raises:
        ConfigError: If a trial asks for more than this machine has.
        DataError: If a dataset is missing or damaged.
    """
    workload.check(experiment)
    machine, wanted = _machine(), experiment.resources
    gpus_at_least = 0.0 if wanted.gpus == "auto" else wanted.gpus
    check_fits(wanted.cpus, gpus_at_least, [Node(platform.node(), machine["CPU"], machine["GPU"])])
    from trainables.cost import choose_way

    # All searches of a study have its pace.
    cells = experiment.studies()
    # Each loss of a study is timed with its defaults and the settings of the experiment.
    paces = [
        [
            workload.pace(experiment.suggested(cell, Suggestion(name, loss.fixed)))
            for name, loss in cell.space.losses.items()
        ]
        for cell in cells
    ]
    measured = cells if wanted.fuse == "auto" else ()
    configs = {cell.name: experiment.trial_config(cell, {}) for cell in measured}
    ways = {study: choose_way(workload.rates(each), workload.rates_in_turns(each)) for study, each in configs.items()}
    rates, fusions = (
        {study: way.rates for study, way in ways.items()},
        {study: way.trials for study, way in ways.items()},
    )
    fuse = min(fusions.values()) if wanted.fuse == "auto" else wanted.fuse
    gpus = _gpus(experiment, workload, machine, fuse)
    trials = sum(experiment.trials_in(cell) for cell in experiment.cells())
    concurrency = limit_concurrency(wanted, gpus, machine, trials, fuse)
    plans = tuple(
        StudyPlan(
            study=cell.name,
            trials=experiment.trials_in(cell),
            epochs=cell.training.total_epochs,
            space={name: describe_bound(bound) for name, bound in cell.space.bounds().items()},
            points=tuple(sample_points(experiment, cell, POINTS, prior.get(cell.name, ()))),
            epoch_seconds=_slower(
                workload, experiment.trial_config(cell, {}), rates.get(cell.name, {}), concurrency.together
            )
            * fmean(pace.epoch_seconds for pace in timed),
            expected_epochs=expected_epochs(cell.training.total_epochs, cell.scheduler),
            searches=experiment.search.repeats,
        )
        for cell, timed in zip(cells, paces, strict=True)
    )
    designs = designs_of(experiment, luck)
    limits = describe_limit(wanted, gpus, machine, fuse), describe_fusion(fusions)
    # The queries of val are ranked as well.
    evaluation = fmean(2 * max(pace.evaluation_seconds for pace in timed) for timed in paces)
    return DryRun(
        experiment=experiment.name,
        studies=plans,
        concurrency=concurrency,
        forecast=forecast(experiment, _lengths(experiment, plans), evaluation, concurrency),
        device=paces[0][0].device,
        budget={"hours": experiment.budget.hours, "gpu_hours": experiment.budget.gpu_hours},
        designs=tuple(designs),
        luck=luck,
        notes=(
            *filter(None, limits),
            *_describe_race(experiment),
            *describe_designs(experiment, designs, luck),
            *overlaps(experiment),
        ),
    )


def _lengths(experiment: Experiment, plans: Sequence[StudyPlan]) -> dict[str, float]:
    """Return search -> seconds of an epoch, which are those of its study."""
    seconds = [plan.epoch_seconds for plan in plans for _ in range(plan.searches)]
    return {cell.name: length for cell, length in zip(experiment.cells(), seconds, strict=True)}


def sample_points(
    experiment: Experiment, cell: Cell, count: int, prior: Sequence[PriorPoint] = ()
) -> list[dict[str, Any]]:
    """Return the first points of a study: published points and points from elsewhere, then points that are drawn.

    Returns:
        Plain values for JSON: ``params`` by the names of the space, and their meaning: ``loss``, ``loss_parameters``,
        ``training`` and ``model_parameters``. A point of ``search.prior`` has its ``source``, a study.
    """
    from orchestrator.studies.study import Study

    trials = experiment.trials_in(cell)
    study = Study(cell, experiment.search, trials, prior=prior)
    drawn = [study.draw(partial(experiment.suggested, cell)) for _ in range(min(count, trials))]
    begins = len(cell.space.first_points()) + len(cell.enqueued)
    sources = {begins + place: {"source": point.source} for place, point in enumerate(prior)}
    return [
        {"params": dict(point.params), **asdict(point.suggestion), **sources.get(number, {})}
        for number, point in enumerate(drawn)
    ]


def describe_bound(bound: Range | Values) -> str:
    """Return the bounds of a parameter in words."""
    if isinstance(bound, Values):
        return ", ".join(str(value) for value in bound.values)
    kind = "whole numbers, " if bound.whole else ""
    return f"{kind}{value_text(bound.low)} to {value_text(bound.high)}{', log-uniform' if bound.log else ''}"


def _machine() -> dict[str, float]:
    """Return the CPUs and GPUs of this machine, by Ray's names."""
    import torch

    return {"CPU": float(usable_cpus()), "GPU": float(torch.cuda.device_count())}


def _slower(workload: TrainablesWorkload, config: TrialConfig, rates: Mapping[int, float], together: int) -> float:
    """Return the factor by which an epoch takes longer if a number of trials train together."""
    if together == 1:
        return 1.0
    if together not in rates:
        rates = workload.rates(config, (together,))
    # Trials that could not be stacked take turns.
    return together * rates[1] / rates.get(together, rates[1])


def _gpus(experiment: Experiment, workload: TrainablesWorkload, machine: Mapping[str, float], fuse: int) -> float:
    """Return the share of a GPU for a trial, or for a group of fused trials: as asked for, or measured."""
    wanted = experiment.resources.gpus
    if wanted != "auto":
        return wanted
    if not machine["GPU"]:
        return 0.0
    if fuse > 1:
        return 1.0
    return choose_share(workload.measure(experiment.trial_config(cell, {})) for cell in experiment.studies())


def _describe_race(experiment: Experiment) -> list[str]:
    confirm = experiment.confirm
    if confirm is None or confirm.trainings is None:
        return []
    return [
        f"the best {confirm.top} of each study and the baseline race for at most {confirm.trainings} trainings on "
        f"each dataset; a race that is decided ends before"
    ]


def print_dry_run(result: DryRun) -> None:
    """Print a table of each study, with ranges and first points, and the forecast."""
    show = make_console(plain_width=160).print
    for study in result.studies:
        show(_space(study))
    rows = [
        [study.study, _trials(study), str(study.epochs), number_text(study.epoch_seconds, decimals=2)]
        for study in result.studies
    ]
    show(make_table(["study", "trials", "epochs each", "s/epoch"], rows, f"{result.experiment}: plan", texts=1))
    if result.designs:
        show(design_table(result.designs, result.luck))
    for sentence in describe_dry_run(result):
        show(Text(sentence))


def _trials(study: StudyPlan) -> str:
    """Return the trials of a study, of each of its searches where there are several."""
    return str(study.trials) if study.searches == 1 else f"{study.searches} × {study.trials}"


def _estimate(usual: str, most: str) -> str:
    """Return the usual time with the longest, where nothing is stopped, if it is another."""
    return f"about {usual}" if usual == most else f"about {usual}, at most {most}"


def describe_dry_run(result: DryRun) -> list[str]:
    """Return sentences about the time of the search, and about limits that end it before."""
    plan, at_a_time = result.forecast, result.concurrency
    confirm = f" and up to {plan.confirmations} trainings that confirm" if plan.confirmations else ""
    epochs = f"{plan.epochs_at_most:,} epochs"
    if plan.epochs < plan.epochs_at_most:
        epochs = f"about {plan.epochs:,} epochs of at most {plan.epochs_at_most:,}"
    fused = f", {at_a_time.together} of them in one process" if at_a_time.fuse > 1 else ""
    pace = f"{at_a_time.together} that share one {result.device}" if fused else f"one on {result.device}"
    hours = {**plan.stages, "usual": plan.hours, "most": plan.hours_at_most}
    times = {name: duration_text(3600 * count) for name, count in hours.items()}
    confirming = f"the confirmation {times['confirm']}, " if plan.confirmations else ""
    sentences = [
        f"{plan.trials} trials{confirm}: {epochs}, then {count_text(plan.evaluated, 'model')} evaluated on test",
        f"{at_a_time.trials} trials at a time, limited by {at_a_time.limited_by}{fused}",
        f"{_estimate(times['usual'], times['most'])}, at the pace of {pace}",
        f"of these the search {times['search']}, {confirming}test {times['test']}",
    ]
    if at_a_time.gpus:
        sentences.append(
            f"about {in_digits(plan.gpu_hours, 2)} GPU hours, at most {in_digits(plan.gpu_hours_at_most, 2)}, "
            f"with {at_a_time.gpus:g} of a GPU for each trial"
        )
    needs = {"hours": plan.stages["search"], "gpu_hours": plan.search_gpu_hours}
    sentences += [
        f"budget.{name}={limit:g} ends it before"
        for name, limit in result.budget.items()
        if limit is not None and needs[name] > limit
    ]
    return [*sentences, *result.notes, "nothing was searched and nothing written"]


def _space(study: StudyPlan) -> Table:
    """Return a row for each searched parameter, and for each parameter of a loss that follows from the suggestion."""
    points = study.points[:SHOWN]
    searched = {name.rpartition(".")[2] for name in study.space}
    follow = {name for point in points for name in point["loss_parameters"] if name not in searched}
    # A pretrained model that is evaluated as it is has a parameter of its own.
    apart = {name for point in points for name in point["params"] if name not in study.space}
    names = [*study.space, *sorted(follow), *sorted(apart)]
    values = [[{**point["loss_parameters"], **point["params"]}.get(name) for point in points] for name in names]
    rows = [
        [name, study.space.get(name, ""), *("" if value is None else value_text(value) for value in row)]
        for name, row in zip(names, values, strict=True)
    ]
    if any("source" in point for point in points):
        rows.append(["from search.prior", "", *(point.get("source", "") for point in points)])
    headings = ["parameter", "range", *(f"trial {number}" for number in range(len(points)))]
    repeats = "" if study.searches == 1 else f", {study.searches} searches, of which this is the first"
    return make_table(headings, rows, f"{study.study}: {count_text(study.trials, 'trial')}{repeats}", texts=2)
