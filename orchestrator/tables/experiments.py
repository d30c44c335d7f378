"""Results of experiments as rows of tables like the tables of Bleeker and de Rijke (2022).

The rows of a confirmed dataset are its candidates, with metrics on test over the seeds. The rows of an unconfirmed
dataset are its best trials, with metrics on val over the trainings of the search; a note says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.points import Point, best_points
from orchestrator.journal.reader import read_history
from orchestrator.results.confirmation import metrics_of
from orchestrator.results.sentences import statements
from orchestrator.results.statistics import Measure
from orchestrator.results.summary import Summary
from orchestrator.tables import Row, Table, cocos_tables, retrieval_table, rows_of
from orchestrator.tables.equal_budget import equal_budget_tables
from orchestrator.tables.judged import judged_tables
from orchestrator.tables.pareto import pareto_tables
from orchestrator.tables.records import to_dict as table_to_dict
from orchestrator.tables.table import class_tables


@dataclass(frozen=True)
class Result:
    """Results of one experiment.

    Attributes:
        name: Name of the experiment.
        summary: Summary of the experiment.
        rows: A row for each candidate.
        data: Digest of each dataset by name.
    """

    name: str
    summary: Summary
    rows: tuple[Row, ...]
    data: dict[str, str]


def read_result(directory: Path) -> Result:
    """Read an experiment's journal, whatever state the experiment is in.

    Raises:
        JournalError: If there is no journal, or it is damaged.
    """
    history = read_history(directory)
    summary = Summary(history)
    rows: list[Row] = [row for verdict in summary.verdicts.values() for row in rows_of(verdict)]
    for dataset in dict.fromkeys(trial.config.dataset for trial in history.trials.values()):
        if dataset not in summary.verdicts:
            rows += _unconfirmed(history, dataset)
    return Result(history.name, summary, tuple(rows), dict(history.data))


def tables_of(
    results: Sequence[Result], *, with_published: bool = False, cocos: bool = False, brief: bool = False
) -> list[Table]:
    """Return the table of retrieval metrics with its notes, and all further tables.

    Args:
        results: Results in the order of their rows.
        with_published: Put the rows of Bleeker and de Rijke (2022) beside ours.
        cocos: Add the tables of COCOS.
        brief: Write only comparison and finding of each dataset under the table, without the statistics.
    """
    rows = [row for result in results for row in result.rows]
    table = retrieval_table(rows, with_published=with_published)
    notes = [*table.notes, *(note for result in results for note in _notes(result, len(results) > 1, brief))]
    tables = [replace(table, notes=(*notes, *_differing_data(results))), *class_tables(rows)]
    for result in results:
        name = result.name if len(results) > 1 else ""
        tables += [
            *judged_tables(result.rows, result.summary, name),
            *pareto_tables(result.summary, name),
            *equal_budget_tables(result.summary, name),
        ]
    return [*tables, *(cocos_tables(rows, with_published=with_published) if cocos else ())]


def to_dict(results: Sequence[Result], tables: Sequence[Table]) -> dict[str, Any]:
    """Return verdicts with all their numbers, and the tables, as plain values for JSON."""
    kept = (
        "experiment",
        "metric",
        "ended_by",
        "winners",
        "verdicts",
        "races",
        "equal_budget",
        "judged",
        "test_openings",
        "caveats",
        "early_epochs",
        "objectives",
        "pareto",
    )
    described = [result.summary.to_dict() for result in results]
    experiments = [{name: one[name] for name in kept} for one in described]
    return {"experiments": experiments, "tables": [table_to_dict(table) for table in tables]}


def _unconfirmed(history: History, dataset: str) -> list[Row]:
    """Return the best point of each study, best first."""
    studies: dict[str, Point] = {}
    for point in best_points(history.trials.values()):
        if point.first.config.dataset == dataset:
            studies.setdefault(point.first.study, point)
    return [_row(point, rank, history) for rank, point in enumerate(studies.values(), start=1)]


def _row(point: Point, rank: int, history: History) -> Row:
    trial = point.finished[0]
    trainings = [metrics_of(training, history) for training in point.finished]
    measures = {name: _measure([each[name] for each in trainings if name in each]) for name in trainings[0]}
    retrieval = {name.removeprefix("val/"): value for name, value in measures.items() if name.startswith("val/")}
    cocos = {name.removeprefix("cocos/"): value for name, value in measures.items() if name.startswith("cocos/")}
    spreads = {
        name: replace(value, std=cocos[f"{name}_std"].mean) for name, value in cocos.items() if f"{name}_std" in cocos
    }
    return Row(
        dataset=trial.config.dataset,
        model=trial.config.model,
        loss=trial.config.loss,
        parameters=trial.parameters,
        measures=retrieval | cocos | spreads,
        number=str(rank),
        verdict="unconfirmed",
    )


def _measure(values: Sequence[float]) -> Measure:
    """Return a metric over the trainings of a point; the deviation of a single training is not 0 but unknown."""
    return Measure(fmean(values), pstdev(values) if len(values) > 1 else None, len(values))


def _notes(result: Result, several: bool, brief: bool) -> list[str]:
    """Return statements about each dataset, with its name; for an unconfirmed dataset, that values are on val."""
    if not result.rows:
        state = f"`orchestrator status {result.name}` tells how it stands"
        return [f"{result.name}: no trial has been trained to its end yet, so there is nothing to compare; {state}."]
    notes = []
    for dataset in dict.fromkeys(row.dataset for row in result.rows):
        where = " ".join([*([f"{result.name}:"] if several else []), f"{Path(dataset).name}:"])
        values = [] if dataset in result.summary.verdicts else ["its rows show val, of the trainings of the search"]
        said = statements(dataset, result.summary, brief=brief)
        notes += [f"{where} {sentence}." for sentence in (*said, *values)]
    return notes


def _differing_data(results: Sequence[Result]) -> list[str]:
    """Name the datasets that two experiments had in different versions: their rows can't be compared."""
    names = dict.fromkeys(name for result in results for name in result.data)
    differing = [name for name in names if len({one.data[name] for one in results if name in one.data}) > 1]
    return [f"The experiments had different versions of {name}; their rows can't be compared." for name in differing]
