"""Retrieval with the pairs that people judged to fit, as tables."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.results.summary import Summary
from orchestrator.tables.layouts import Column, Layout, both_ways
from orchestrator.tables.rows import Row
from orchestrator.tables.table import Table

_OF_A_DIRECTION = (
    Column("r1", "R@1", "R@1", 1),
    Column("r5", "R@5", "R@5", 1),
    Column("r10", "R@10", "R@10", 1),
    Column("r_precision", "R-P", "R-P", 3),
    Column("map_r", "mAP@R", "mAP@R", 3),
)
_COLUMNS = (
    *both_ways(*_OF_A_DIRECTION),
    Column("rsum", "rsum", "rsum", 1),
    Column("rsum_annotated", "annotated alone", "annotated alone", 1),
    Column("rsum_condensed", "without unjudged", "without unjudged", 1),
)
NOTE = (
    "Candidates that people judged to fit are right as well, and what nobody judged is wrong; 'annotated alone' is the "
    "rsum of the same queries and candidates without the judgements, and 'without unjudged' the rsum among judged "
    "candidates."
)


def judged_tables(rows: Sequence[Row], summary: Summary, experiment: str = "") -> list[Table]:
    """Return a table for each source of judgements that an experiment's candidates were evaluated with.

    Args:
        rows: Rows of the experiment.
        summary: Summary of the experiment.
        experiment: Name of the experiment, if tables of several experiments stand together.
    """
    titles = {one.name: one.title for judged in summary.judged.values() for one in judged}
    return [_table(name, title, rows, experiment) for name, title in titles.items()]


def _table(name: str, title: str, rows: Sequence[Row], experiment: str) -> Table:
    prefix = f"judged_{name}/"
    found = [
        replace(
            row, measures={m.removeprefix(prefix): value for m, value in row.measures.items() if m.startswith(prefix)}
        )
        for row in rows
    ]
    measured = tuple(row for row in found if row.measures)
    columns = tuple(column for column in _COLUMNS if any(column.metric in row.measures for row in measured))
    layout = Layout(
        name="_".join(part for part in ("judged", name, experiment) if part),
        published=None,
        title=f"Judged pairs: {title}" + (f", {experiment}" if experiment else ""),
        spread="",
        columns=columns,
    )
    return Table(layout, measured, (NOTE,))
