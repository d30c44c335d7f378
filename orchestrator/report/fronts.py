"""The trade-off of several objectives: the sentences about it, and its figure.

The Pareto front of a search with several objectives, drawn among all finished settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.journal.points import Point
from orchestrator.report.figures import Figure, Json, Option, Panel, axis, plain, short
from orchestrator.report.studies import Study, by_dataset
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


Goal = tuple[str, str]
"""An objective: its metric, and ``maximize`` or ``minimize``."""


def front_figure(history: History, studies: Sequence[Study], names: Mapping[str, str]) -> Figure:
    """Return each pair of objectives of each dataset, the front as a line through its members.

    Args:
        history: History of the search.
        studies: Studies of the experiment.
        names: Id of a trial -> its name on the page.
    """
    goals = goals_of(history)
    fronts = pareto_fronts(history, goals) if len(goals) > 1 else {}
    groups = by_dataset(studies)
    options = [
        Option(_label(Path(dataset).name, pair, len(goals)), [_panel(groups[Path(dataset).name], front, pair, names)])
        for dataset, front in fronts.items()
        for pair in combinations([(goal.metric, str(goal.direction)) for goal in goals], 2)
    ]
    return Figure(
        key="front",
        title="Pareto front",
        note="Every setting that was trained to its end is a mark. Filled: on the front, which is listed below. "
        "Hollow: another setting is better in at least one objective, and worse in none.",
        options=options,
        absent="The search had one objective, or none of its trials has finished.",
    )


def _label(dataset: str, pair: Sequence[Goal], goals: int) -> str:
    return dataset if goals == 2 else f"{dataset}: {' and '.join(short(metric) for metric, _ in pair)}"


def _panel(studies: Sequence[Study], front: Sequence[Point], pair: Sequence[Goal], names: Mapping[str, str]) -> Panel:
    first, second = pair
    members = {point.first.id for point in front}
    # A setting with several trainings has one mark, at their means.
    points = {point.first.id: point for study in studies for point in study.points.values() if point.finished}
    beaten = [point for point in points.values() if point.first.id not in members]
    ordered = sorted(front, key=lambda point: point.mean(second[0]) or 0.0)
    traces = [_marks(beaten, pair, names, "beaten", "circle-open", "--muted")] if beaten else []
    line = _marks(ordered, pair, names, "on the front", "circle", "--c1")
    # The front of two objectives is a line; the members of a front of more objectives need not lie on a line.
    traces.append({**line, "mode": "lines+markers", "line": {"color": "--c1", "width": 1.5, "dash": "dot"}})
    return Panel("", traces, {"xaxis": _axis(second), "yaxis": _axis(first)})


def _axis(goal: Goal) -> Json:
    metric, direction = goal
    better = "higher is better" if direction == "maximize" else "lower is better"
    return axis(f"{short(metric)} ({better})")


def _marks(
    points: Sequence[Point], pair: Sequence[Goal], names: Mapping[str, str], name: str, symbol: str, shade: str
) -> Json:
    (vertical, _), (horizontal, _) = pair
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [point.mean(horizontal) for point in points],
        "y": [point.mean(vertical) for point in points],
        "text": [plain(point.first.id) for point in points],
        "customdata": [plain(names[point.first.id]) for point in points],
        "hovertemplate": "%{customdata}<br>%{xaxis.title.text} %{x:.4g}<br>%{yaxis.title.text} %{y:.4g}<extra></extra>",
        "marker": {"color": shade, "symbol": symbol, "size": 9},
    }
