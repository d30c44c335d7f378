"""The design of a confirmation: which trials of a search are trained again, with which seeds, judged at which level.

The best value of a search is too high on average, because it is the highest of many. A configuration is therefore
judged by the values of fresh seeds, which all candidates share, so that runs of equal seeds can be paired.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from orchestrator.experiment.experiment import Experiment, experiment_of, seed_of_search
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, best_points, points_of, ranked, trained_alike
from orchestrator.journal.records import ConfirmationPlan, TrialCreated
from orchestrator.journal.trial import Stage, Trial, TrialState, best_first
from orchestrator.results.bands import setting_to_use
from orchestrator.results.race import LEVEL as RACE_LEVEL
from orchestrator.results.race import first_seeds
from orchestrator.results.verdict import LEVEL, LEVELS_OF_SEARCHES
from trainables.config import derive_seed

RESERVE = 0.01
"""Level that all plans after the first plan of a confirmation may use together, beside the first plan's level."""


def wanted_plans(experiment: Experiment, history: History) -> list[ConfirmationPlan]:
    """Return the plan of ``confirm`` for each dataset that has candidates; none where ``confirm`` is not given."""
    confirm = experiment.confirm
    if confirm is None:
        return []
    repeated = experiment.search.repeats > 1
    candidates = (
        [*best_of_searches(history, confirm.each_of), *zero_shot_trials(history)]
        if repeated
        else choose_candidates(
            history,
            confirm.top,
            per_study=confirm.published == "each",
            each_of=confirm.each_of,
            further=surface_trials(experiment, history) if confirm.surface else (),
        )
    )
    chosen: dict[str, list[Trial]] = {}
    for trial in candidates:
        chosen.setdefault(trial.config.dataset, []).append(trial)
    return [
        ConfirmationPlan(
            dataset=dataset,
            candidates=tuple(trial.id for trial in trials),
            seeds=confirm.seeds,
            trainings=confirm.trainings,
            baseline=confirm.baseline
            or (_zero_shot_id(trials) if repeated else _published_id(history, trials, confirm.each_of)),
            looks=history.confirm_looks.get(dataset, 0),
            first=first_seeds(confirm.trainings, len(trials)) if confirm.trainings else None,
            level=RACE_LEVEL if confirm.trainings else LEVELS_OF_SEARCHES.get(experiment.search.repeats, LEVEL),
        )
        for dataset, trials in chosen.items()
    ]


def _zero_shot_id(candidates: Sequence[Trial]) -> str | None:
    """Return the id of the pretrained model that is not trained, the published settings of repeated searches."""
    return next((trial.id for trial in candidates if trial.is_zero_shot), None)


def _published_id(history: History, candidates: Sequence[Trial], each_of: str | None) -> str | None:
    """Return the id of a dataset's published settings, or of the candidate whose runs they share."""
    default = published_default(history, candidates[0].config.dataset)
    if default is None:
        return None
    return next((trial.id for trial in candidates if share_runs(trial, default, each_of)), default.id)


def share_runs(first: Trial, other: Trial, each_of: str | None) -> bool:
    """Whether two trials of the search are one candidate: one trial, or settings that trained alike.

    The values of the parameter ``each_of`` are candidates of their own, even if they trained alike.
    """
    apart = each_of is not None and first.params.get(each_of) != other.params.get(each_of)
    return first is other or (not apart and trained_alike(first, other))


def level_of_plan(level: float, looks_before: int) -> float:
    """Return the level that a plan may use: the whole level before any look, else half of the remaining reserve.

    A plan that is made after a look cannot use the level of the first plan again. So all plans together err with a
    probability of at most ``level + RESERVE``, however many plans there are.

    Args:
        level: Level of the first plan, in (0, 1).
        looks_before: Number of earlier looks at values of this confirmation, >= 0.

    Example:
        >>> [level_of_plan(0.035, looks) for looks in (0, 1, 2)]
        [0.035, 0.005, 0.0025]
    """
    return level if looks_before == 0 else RESERVE / 2**looks_before


def surface_trials(experiment: Experiment, history: History) -> list[Trial]:
    """Return the trial of each study at the setting to use of its surface, see ``Confirm.surface``.

    It may have been stopped early, because the confirmation trains every candidate to its end. Where the setting
    repeats an earlier trial, this trial is returned.
    """
    candidates: list[Trial] = []
    for cell in experiment.cells():
        trials = history.study(cell.name)
        last = experiment.trials_in(cell) - 1
        if len(trials) > last and setting_to_use(cell, trials[:last]) is not None:
            trial = trials[last]
            candidates.append(history.trials[trial.candidate or trial.id])
    return candidates


def choose_candidates(
    history: History, top: int, *, per_study: bool = False, each_of: str | None = None, further: Sequence[Trial] = ()
) -> list[Trial]:
    """Return the trials to confirm: the best of each study, and on each dataset the best published settings.

    Trainings of one setting are one candidate, whose value is their mean. Settings that trained alike in every epoch
    are one candidate as well, the first, unless they were planned or trained again before. The published settings are
    the baseline; their trial may have been stopped early, because the confirmation trains every candidate to its end.

    Args:
        history: History of the search.
        top: Number of trials of each study, or of each value.
        each_of: A searched parameter, of which the best trials of each value in a study are chosen.
        per_study: Whether to add the published settings of each study, not only of each dataset.
        further: Trials that are candidates as well.
    """
    searched = history.stage(Stage.SEARCH)
    planned = {name for plan in history.plans.values() for name in plan.candidates}
    planned |= {str(trial.candidate) for trial in history.stage(Stage.CONFIRM)}

    def distinct(trials: Iterable[Trial]) -> Iterator[Trial]:
        """Yield the first trial of each candidate: further trainings with equal seeds would give equal values."""
        known: dict[str, Trial] = {}
        for trial in trials:
            is_known = any(share_runs(other, trial, each_of) for other in known.values()) and trial.id not in planned
            if not is_known and trial.config.setting not in known:
                known[trial.config.setting] = trial
                yield trial

    chosen: list[Trial] = []
    for study in dict.fromkeys(trial.study for trial in searched):
        groups: dict[Any, list[Point]] = {}
        for point in best_points(history.study(study)):
            groups.setdefault(point.first.params.get(each_of) if each_of else None, []).append(point)
        for points in groups.values():
            chosen += islice(distinct(point.first for point in points), top)
    chosen += further
    datasets = dict.fromkeys(trial.config.dataset for trial in chosen)
    defaults = [published_default(history, name) for name in datasets]
    if per_study:
        published = [points for name in datasets for points in _published(history, name)]
        defaults += [_preferred(points, history.metric, planned) for points in published]
    return list(distinct([*chosen, *(trial for trial in defaults if trial is not None)]))


def best_of_searches(history: History, each_of: str | None = None) -> list[Trial]:
    """Return the best trial of each search, or of each value of a parameter in each search.

    Searches are independent: a setting that two of them found is a candidate of both. A pretrained model that is not
    trained was found by none.
    """
    chosen: list[Trial] = []
    for study in dict.fromkeys(trial.study for trial in history.stage(Stage.SEARCH)):
        best: dict[Any, Trial] = {}
        for point in best_points(trial for trial in history.study(study) if not trial.is_zero_shot):
            best.setdefault(point.first.params.get(each_of) if each_of else None, point.first)
        chosen += best.values()
    return chosen


def zero_shot_trials(history: History) -> list[Trial]:
    """Return the evaluation of each pretrained model without training: the first on a dataset, as all are equal."""
    first: dict[tuple[str, str], Trial] = {}
    for trial in history.stage(Stage.SEARCH):
        if trial.is_zero_shot and trial.state is TrialState.FINISHED:
            first.setdefault((trial.config.dataset, trial.config.model), trial)
    return list(first.values())


def published_default(history: History, dataset: str) -> Trial | None:
    """Return the best trial on a dataset with the published settings of its loss, a finished trial if there is any.

    The experiment's metric decides; a study may choose the best epoch by a metric of its own. A confirmation keeps the
    settings, or the candidate whose runs they share, that its plan has named, by whatever rule that was.

    Returns:
        ``None`` where the search has no such trial, because its bounds exclude the published settings.
    """
    plan = history.plans.get(dataset)
    if plan is not None and plan.baseline in history.trials:
        return history.trials[plan.baseline]
    confirmed = {str(trial.candidate) for trial in history.stage(Stage.CONFIRM)}
    points = [point for points in _published(history, dataset) for point in points]
    return _preferred(points, history.metric, confirmed)


def _published(history: History, dataset: str) -> list[list[Point]]:
    """Return, for each study on a dataset, the points of published settings of its loss."""
    studies: list[list[Point]] = []
    for cell in (cell for cell in experiment_of(history).cells() if cell.dataset == dataset):
        points = points_of(history.study(cell.name))
        published = [setting.items() for setting in cell.space.published_points()]
        matches = [[point for point in points if setting <= point.first.params.items()] for setting in published]
        studies.append([alike[0] for alike in matches if alike])
    return studies


def _preferred(points: Sequence[Point], metric: str, chosen: Collection[str]) -> Trial | None:
    """Return the first trial of the best point that finished, otherwise the best trial that was stopped early.

    Points whose trials were ``chosen`` before, by their ids, come first: an older version may have compared otherwise.
    """
    points = [point for point in points if point.first.id in chosen] or points
    best = max(ranked(points), key=lambda point: point.mean(metric) or 0.0, default=None)
    if best is not None:
        return best.first
    stopped = best_first(point.first for point in points if point.state is TrialState.STOPPED_EARLY)
    return max(stopped, key=lambda trial: trial.at_best[metric], default=None)


def fresh_seeds(seed: int, count: int) -> list[int]:
    """Return seeds derived from the search's seed and different from it; a longer list begins with a shorter list."""
    seeds: list[int] = []
    index = 0
    while len(seeds) < count:
        fresh = derive_seed(seed, "confirm", index)
        seeds += [fresh] if fresh not in (seed, *seeds) else []
        index += 1
    return seeds


def seeds_of(trial: Trial, seed: int, count: int) -> list[int]:
    """Return the fresh seeds of a candidate: all candidates of searches with equal numbers share them.

    Different searches have different seeds, so that their trainings are independent.

    Args:
        trial: The trial of the search that is trained again.
        seed: The seed of the experiment.
        count: Number of seeds.
    """
    return fresh_seeds(seed_of_search(seed, trial.search), count)


def repeat(trial: Trial, index: int, seed: int) -> TrialCreated:
    """Return the training that repeats a trial of the search with the fresh seed of an index."""
    return TrialCreated(
        trial=f"{trial.id}-seed{index}",
        stage=Stage.CONFIRM,
        study=trial.study,
        number=trial.number,
        config={**trial.config.to_dict(), "seed": seed},
        params=trial.params,
        candidate=trial.id,
        search=trial.search if trial.search > 1 else None,
    )
