"""The Pareto front of a search with several objectives, as a table in the formats of all others."""

from collections.abc import Mapping
from typing import Any

from orchestrator.results.statistics import Measure
from orchestrator.results.summary import Summary
from orchestrator.tables import Row, Table
from orchestrator.tables.latex import escape
from orchestrator.tables.layouts import Column, Layout

DECIMALS = 2


def pareto_tables(summary: Summary, experiment: str = "") -> list[Table]:
    """Return the table of the trials that no other beats in every objective; none where there is one objective.

    Args:
        summary: Of the experiment.
        experiment: Its name, where tables of several experiments stand together.
    """
    rows = [_row(trial, summary) for front in summary["pareto"].values() for trial in front]
    if not rows:
        return []
    metrics = [goal["metric"] for goal in summary["objectives"]]
    layout = Layout(
        name=f"pareto_{experiment}" if experiment else "pareto",
        published=None,
        title=f"Pareto front of {experiment}" if experiment else "Pareto front",
        spread="",
        columns=tuple(Column(metric, metric, escape(metric), DECIMALS) for metric in metrics),
    )
    return [Table(layout, tuple(rows), (explain_front(summary["objectives"]),))]


def explain_front(objectives: list[dict[str, str]]) -> str:
    """Return a sentence that says what a Pareto front is of."""
    goals = [
        f"{goal['metric']} {'maximised' if goal['direction'] == 'maximize' else 'minimised'}" for goal in objectives
    ]
    return (
        f"No finished trial of the search is better than one of these in one objective without being worse in another: "
        f"{', '.join(goals)}. Values are those of each trial's best epoch, of one training each."
    )


def _row(trial: Mapping[str, Any], summary: Summary) -> Row:
    return Row(
        dataset=trial["dataset"],
        model=trial["model"],
        loss=trial["loss"],
        parameters=trial["parameters"],
        measures={goal["metric"]: Measure(trial[goal["metric"]], None, 1) for goal in summary["objectives"]},
        number=trial["trial"],
    )
