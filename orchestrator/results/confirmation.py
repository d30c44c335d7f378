"""The stage after a search: its best trials are trained again with seeds that the search has not used.

A search's best value flatters itself, being the highest of many. What counts is how its configuration does again, with
the same fresh seeds as its rivals, so that runs of equal seeds can be paired.
"""

import json
from collections.abc import Iterable
from dataclasses import replace

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.history import History
from orchestrator.journal.ledger import PlannedTrial
from orchestrator.journal.points import Point, best_points, points_of, ranked
from orchestrator.journal.trial import Stage, Trial, TrialState, best_first
from trainables.config import TrialConfig
from trainables.seeding import derive_seed


def plan_confirmation(experiment: Experiment, history: History) -> list[PlannedTrial]:
    """Return the trainings that confirm a search, seed by seed, so that an interrupted stage compares fairly.

    Args:
        experiment: With ``confirm``; without it, there is nothing to do.
        history: Of its search.
    """
    if experiment.confirm is None:
        return []
    candidates = choose_candidates(history, experiment.confirm.top)
    seeds = fresh_seeds(experiment.search.seed, experiment.confirm.seeds)
    return [_repeat(trial, index, seed) for index, seed in enumerate(seeds) for trial in candidates]


def choose_candidates(history: History, top: int) -> list[Trial]:
    """Return the trials to confirm: the best of each study, and on each dataset the best published settings.

    Trainings of one setting are one candidate, which counts with their mean. The published settings are the baseline;
    their trial may have been stopped early, since they are trained to their end now.
    """
    searched = history.stage(Stage.SEARCH)
    chosen: list[Trial] = []
    for study in dict.fromkeys(trial.study for trial in searched):
        chosen += _distinct(point.first for point in best_points(history.study(study)))[:top]
    datasets = dict.fromkeys(trial.config["dataset"] for trial in chosen)
    return _distinct([*chosen, *(one for name in datasets if (one := published_default(history, name)))])


def published_default(history: History, dataset: str) -> Trial | None:
    """Return the trial on a dataset with the published settings of its loss; of several, one that finished, the best.

    Returns:
        ``None`` where the search holds no such trial, because its bounds leave the published settings out.
    """
    experiment = validate(Experiment, history.experiment, "journal")
    defaults: list[Point] = []
    for cell in experiment.cells():
        points = points_of(history.study(cell.name)) if cell.dataset == dataset else []
        for published in cell.space.first_points():
            same = (point for point in points if published.items() <= point.first.params.items())
            defaults += [first] if (first := next((point for point in same if not point.first.moves), None)) else []
    finished = [point.first for point in ranked(defaults)]
    stopped = [point.first for point in defaults if point.state is TrialState.STOPPED_EARLY]
    return next(iter([*finished, *best_first(stopped)]), None)


def fresh_seeds(seed: int, count: int) -> list[int]:
    """Return so many seeds made of a search's own and different from it; a longer list begins with the shorter."""
    seeds: list[int] = []
    index = 0
    while len(seeds) < count:
        fresh = derive_seed(seed, "confirm", index)
        seeds += [fresh] if fresh not in (seed, *seeds) else []
        index += 1
    return seeds


def _repeat(trial: Trial, index: int, seed: int) -> PlannedTrial:
    return PlannedTrial(
        id=f"{trial.id}-seed{index}",
        study=trial.study,
        number=trial.number,
        config=replace(TrialConfig.from_dict(trial.config), seed=seed),
        params=trial.params,
        candidate=trial.id,
    )


def _distinct(trials: Iterable[Trial]) -> list[Trial]:
    """Drop trials whose training one before them describes as well: it would be the same numbers again."""
    distinct: dict[str, Trial] = {}
    for trial in trials:
        distinct.setdefault(json.dumps(trial.config, sort_keys=True), trial)
    return list(distinct.values())
