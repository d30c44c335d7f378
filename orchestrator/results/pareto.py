"""The Pareto front of a search with several objectives: the points that no other point dominates."""

import json
from collections.abc import Mapping, Sequence

from orchestrator.experiment.sections import Objective, Search
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Stage


def goals_of(history: History) -> tuple[Objective, ...]:
    """Return the objectives of an experiment, the metric that names the winner first."""
    search = history.experiment.values.get("search", {})
    # Only the keys of the objectives: other keys may name a loss or a sampler of a plug-in that is not installed here.
    told = {key: search[key] for key in ("metric", "objectives") if key in search}
    return Search.model_validate_json(json.dumps(told)).goals


def pareto_fronts(history: History, goals: Sequence[Objective]) -> dict[str, list[Point]]:
    """Return the finished points of each dataset that no other point dominates: as good in all goals, better in one.

    Args:
        history: History of the search.
        goals: Objectives of the search.

    Returns:
        Dataset -> points, the best in the first objective first; equal points are all returned.
    """
    finished = [point for point in points_of(history.stage(Stage.SEARCH)) if point.finished]
    gains = {point.first.id: [_gain(point, goal) for goal in goals] for point in finished}
    fronts: dict[str, list[Point]] = {}
    for point in sorted(finished, key=lambda point: -gains[point.first.id][0]):
        dataset = point.first.config.dataset
        rivals = [gains[other.first.id] for other in finished if other.first.config.dataset == dataset]
        if not any(_beats(rival, gains[point.first.id]) for rival in rivals):
            fronts.setdefault(dataset, []).append(point)
    return fronts


def values_at_best(point: Point, goals: Sequence[Objective]) -> Mapping[str, float]:
    """Return the objectives of a point: means over its finished trainings, each at its best epoch."""
    means = {goal.metric: point.mean(goal.metric) for goal in goals}
    return {metric: mean for metric, mean in means.items() if mean is not None}


def _gain(point: Point, goal: Objective) -> float:
    value = values_at_best(point, [goal])[goal.metric]
    return value if goal.direction == "maximize" else -value


def _beats(rival: Sequence[float], point: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(rival, point, strict=True)) and any(
        a > b for a, b in zip(rival, point, strict=True)
    )


def explain_front(objectives: Sequence[Objective]) -> str:
    """Return a sentence about the objectives of a Pareto front."""
    goals = [f"{goal.metric} {'maximised' if goal.direction == 'maximize' else 'minimised'}" for goal in objectives]
    return (
        f"No finished trial of the search is better than one of these in one objective without being worse in another: "
        f"{', '.join(goals)}. Values are those of each trial's best epoch; of several trainings of a setting, means."
    )
