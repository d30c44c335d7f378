"""Which trials are confirmed after a search: its best trials are trained again with seeds that the search has not used.

The best value of a search is too high on average, because it is the highest of many. A configuration is therefore
judged by the values of fresh seeds, which all candidates share, so that runs of equal seeds can be paired.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.journalled import experiment_of
from orchestrator.journal.history import History
from orchestrator.journal.ledger import PlannedTrial
from orchestrator.journal.points import Point, best_points, points_of, ranked
from orchestrator.journal.records import ConfirmationPlan
from orchestrator.journal.trial import Stage, Trial, TrialState, best_first
from orchestrator.results.comparisons import LEVEL
from orchestrator.results.race import LEVEL as RACE_LEVEL
from orchestrator.results.race import first_seeds
from trainables.seeding import derive_seed


def wanted_plans(experiment: Experiment, history: History) -> list[ConfirmationPlan]:
    """Return the plan of ``confirm`` for each dataset that has candidates; none where ``confirm`` is not given."""
    confirm = experiment.confirm
    if confirm is None:
        return []
    candidates = choose_candidates(history, confirm.top, each=confirm.published == "each", each_of=confirm.each_of)
    chosen: dict[str, list[str]] = {}
    for trial in candidates:
        chosen.setdefault(trial.config.dataset, []).append(trial.id)
    return [
        ConfirmationPlan(
            dataset=dataset,
            candidates=tuple(names),
            seeds=confirm.seeds,
            trainings=confirm.trainings,
            baseline=confirm.baseline or _id_of(published_default(history, dataset)),
            looks=history.confirm_looks.get(dataset, 0),
            first=first_seeds(confirm.trainings, len(names)) if confirm.trainings else None,
            level=RACE_LEVEL if confirm.trainings else LEVEL,
        )
        for dataset, names in chosen.items()
    ]


def choose_candidates(history: History, top: int, *, each: bool = False, each_of: str | None = None) -> list[Trial]:
    """Return the trials to confirm: the best of each study, and on each dataset the best published settings.

    Trainings of one setting are one candidate, whose value is their mean. The published settings are the baseline;
    their trial may have been stopped early, because the confirmation trains every candidate to its end.

    Args:
        history: History of the search.
        top: Number of trials of each study, or of each value.
        each_of: A searched parameter, of which the best trials of each value in a study are chosen.
        each: Whether to add the published settings of each study, not only of each dataset.
    """
    searched = history.stage(Stage.SEARCH)
    chosen: list[Trial] = []
    for study in dict.fromkeys(trial.study for trial in searched):
        groups: dict[Any, list[Point]] = {}
        for point in best_points(history.study(study)):
            groups.setdefault(point.first.params.get(each_of) if each_of else None, []).append(point)
        for points in groups.values():
            chosen += _distinct(point.first for point in points)[:top]
    datasets = dict.fromkeys(trial.config.dataset for trial in chosen)
    defaults = [published_default(history, name) for name in datasets]
    if each:
        defaults += [_preferred(points) for name in datasets for points in _published(history, name)]
    return _distinct([*chosen, *(one for one in defaults if one is not None)])


def published_default(history: History, dataset: str) -> Trial | None:
    """Return the best trial on a dataset with the published settings of its loss, a finished trial if there is any.

    Returns:
        ``None`` where the search has no such trial, because its bounds exclude the published settings.
    """
    return _preferred([point for points in _published(history, dataset) for point in points])


def _published(history: History, dataset: str) -> list[list[Point]]:
    """Return, for each study on a dataset, the points of published settings of its loss."""
    experiment = experiment_of(history)
    studies: list[list[Point]] = []
    for cell in experiment.cells():
        points = points_of(history.study(cell.name)) if cell.dataset == dataset else []
        found: list[Point] = []
        for published in cell.space.published_points():
            same = (point for point in points if published.items() <= point.first.params.items())
            found += [first] if (first := next((point for point in same if not point.first.moves), None)) else []
        studies.append(found)
    return studies


def _preferred(points: Sequence[Point]) -> Trial | None:
    """Return the first trial of the best point that finished, otherwise the best trial that was stopped early."""
    stopped = [point.first for point in points if point.state is TrialState.STOPPED_EARLY]
    return next(iter([*(point.first for point in ranked(points)), *best_first(stopped)]), None)


def fresh_seeds(seed: int, count: int) -> list[int]:
    """Return seeds derived from the search's seed and different from it; a longer list begins with a shorter list."""
    seeds: list[int] = []
    index = 0
    while len(seeds) < count:
        fresh = derive_seed(seed, "confirm", index)
        seeds += [fresh] if fresh not in (seed, *seeds) else []
        index += 1
    return seeds


def repeat(trial: Trial, index: int, seed: int) -> PlannedTrial:
    """Return the training that repeats a trial of the search with the fresh seed of an index."""
    return PlannedTrial(
        id=f"{trial.id}-seed{index}",
        study=trial.study,
        number=trial.number,
        config=replace(trial.config, seed=seed),
        params=trial.params,
        candidate=trial.id,
    )


def _id_of(trial: Trial | None) -> str | None:
    return None if trial is None else trial.id


def _distinct(trials: Iterable[Trial]) -> list[Trial]:
    """Keep the first trial of each setting: trainings of one setting with equal seeds would give equal values."""
    distinct: dict[str, Trial] = {}
    for trial in trials:
        distinct.setdefault(trial.config.setting, trial)
    return list(distinct.values())
