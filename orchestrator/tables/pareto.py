"""The Pareto front of a search with several objectives, as a table."""

from orchestrator.journal.points import Point
from orchestrator.results.analyses import explain_front, values_at_best
from orchestrator.results.statistics import Measure
from orchestrator.results.summary import Summary
from orchestrator.tables import Row, Table
from orchestrator.tables.latex import escape
from orchestrator.tables.layouts import Column, Layout

DECIMALS = 2


def pareto_tables(summary: Summary, experiment: str = "") -> list[Table]:
    """Return the table of the trials that no other trial beats in every objective; none for one objective.

    Args:
        summary: Summary of the experiment.
        experiment: Name of the experiment, if tables of several experiments stand together.
    """
    rows = [_row(point, summary) for front in summary.fronts.values() for point in front]
    if not rows:
        return []
    metrics = [goal.metric for goal in summary.objectives]
    layout = Layout(
        name=f"pareto_{experiment}" if experiment else "pareto",
        published=None,
        title=f"Pareto front of {experiment}" if experiment else "Pareto front",
        spread="",
        columns=tuple(Column(metric, metric, escape(metric), DECIMALS) for metric in metrics),
    )
    return [Table(layout, tuple(rows), (explain_front(summary.objectives),))]


def _row(point: Point, summary: Summary) -> Row:
    trial = point.first
    return Row(
        dataset=trial.config.dataset,
        model=trial.config.model,
        loss=trial.config.loss,
        parameters=trial.parameters,
        measures={name: Measure(value, None, 1) for name, value in values_at_best(point, summary.objectives).items()},
        number=trial.id,
    )
