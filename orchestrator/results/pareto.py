"""Which trials nobody beats in every objective at once: what a search with several goals comes to."""

import json
from collections.abc import Mapping, Sequence

from orchestrator.experiment.sections import Objective, Search
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState


def goals_of(history: History) -> tuple[Objective, ...]:
    """Return the objectives of an experiment, the metric that names the winner first."""
    return Search.model_validate_json(json.dumps(history.experiment.get("search", {}))).goals


def pareto_fronts(history: History, goals: Sequence[Objective]) -> dict[str, list[Trial]]:
    """Return, for each dataset, its finished trials that no other is at least as good as in all, and better in one.

    Args:
        history: Of the search.
        goals: Its objectives.

    Returns:
        Dataset -> trials, those that are best in the first goal first; of equal trials all.
    """
    finished = [trial for trial in history.stage(Stage.SEARCH) if trial.state is TrialState.FINISHED]
    points = {trial.id: [_gain(trial, goal) for goal in goals] for trial in finished}
    fronts: dict[str, list[Trial]] = {}
    for trial in sorted(finished, key=lambda trial: -points[trial.id][0]):
        rivals = [points[other.id] for other in finished if other.config["dataset"] == trial.config["dataset"]]
        if not any(_beats(rival, points[trial.id]) for rival in rivals):
            fronts.setdefault(trial.config["dataset"], []).append(trial)
    return fronts


def values_at_best(trial: Trial, goals: Sequence[Objective]) -> Mapping[str, float]:
    """Return a trial's objectives at its best epoch."""
    assert trial.best_epoch is not None, "a finished trial has epochs"
    metrics = trial.epochs[trial.best_epoch]
    return {goal.metric: metrics[goal.metric] for goal in goals}


def _gain(trial: Trial, goal: Objective) -> float:
    value = values_at_best(trial, [goal])[goal.metric]
    return value if goal.direction == "maximize" else -value


def _beats(rival: Sequence[float], point: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(rival, point, strict=True)) and any(
        a > b for a, b in zip(rival, point, strict=True)
    )


def explain_front(objectives: list[dict[str, str]]) -> str:
    """Return a sentence that says what a Pareto front is of."""
    goals = [
        f"{goal['metric']} {'maximised' if goal['direction'] == 'maximize' else 'minimised'}" for goal in objectives
    ]
    return (
        f"No finished trial of the search is better than one of these in one objective without being worse in another: "
        f"{', '.join(goals)}. Values are those of each trial's best epoch, of one training each."
    )
