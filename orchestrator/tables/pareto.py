"""The Pareto front of a search with several objectives, as a table in the formats of all others."""

from collections.abc import Mapping
from typing import Any

from orchestrator.results.pareto import explain_front
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


def _row(trial: Mapping[str, Any], summary: Summary) -> Row:
    return Row(
        dataset=trial["dataset"],
        model=trial["model"],
        loss=trial["loss"],
        parameters=trial["parameters"],
        measures={goal["metric"]: Measure(trial[goal["metric"]], None, 1) for goal in summary["objectives"]},
        number=trial["trial"],
    )
