"""The trade-off of several objectives: the settings on the Pareto front, and the sentence about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.results.analyses import explain_front, goals_of, pareto_fronts, values_at_best
from orchestrator.text.values import metric_text, values_text


@dataclass(frozen=True)
class Member:
    """A trial of a front.

    Attributes:
        name: Name on the page.
        detail: Hyper-parameters.
        reached: Objectives and their values, as text.
    """

    name: str
    detail: str
    reached: list[tuple[str, str]]


@dataclass(frozen=True)
class Front:
    """The trials of a dataset that no other trial beats in every objective.

    Attributes:
        sentence: Sentence about the objectives.
        members: Members, the best in the first objective first.
    """

    dataset: str
    sentence: str
    members: list[Member]


def fronts_of(history: History, names: Mapping[str, str]) -> list[Front]:
    """Return a front for each dataset; empty for a single objective.

    Args:
        history: History of the search.
        names: Id of a trial -> its name on the page.
    """
    goals = goals_of(history)
    if len(goals) < 2:
        return []
    sentence = explain_front(goals)
    return [
        Front(
            Path(dataset).name,
            sentence,
            [
                Member(
                    names[point.first.id],
                    values_text(point.first.parameters),
                    [(metric, metric_text(metric, value)) for metric, value in values_at_best(point, goals).items()],
                )
                for point in front
            ],
        )
        for dataset, front in pareto_fronts(history, goals).items()
    ]
