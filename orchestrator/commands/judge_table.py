"""``orchestrator judge`` of tables: results of any program, from files or from stores of MLflow and Optuna."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.judging.columns import Columns, find_columns, is_lower_better
from orchestrator.judging.records import MLFLOW, OPTUNA, SUFFIXES, pivoted, read_records
from orchestrator.judging.runs import ARRAYS, Judged, runs_of_arrays, runs_of_table
from orchestrator.results.answer import Answer, Column, table_of
from orchestrator.results.table_verdicts import Circumstances, TableVerdict, over_datasets, turned_values
from orchestrator.text.values import count_text
from orchestrator.text.wording import listed
from orchestrator.views.forms import print_answers
from trainables.errors import ConfigError
from trainables.extras import require


@dataclass(frozen=True)
class TableRequest:
    """What is asked of tables; see the options of ``orchestrator judge``.

    Attributes:
        roles: Role -> column that the user names.
        lower: Whether lower values are better; ``None`` takes what the metric's name says.
    """

    places: Sequence[str]
    roles: dict[str, str | None]
    about: Circumstances
    lower: bool | None
    keep: str | None
    percent: bool
    count: int | None
    form: str


def is_of_tables(places: Sequence[str]) -> bool:
    """Whether arguments name tables or arrays, and not an experiment."""
    endings = (*SUFFIXES, *ARRAYS, ".xlsx", ".xls", ".ods")
    return len(places) > 1 or any(
        place.startswith((MLFLOW, OPTUNA)) or (place.lower().endswith(endings) and not Path(place).is_dir())
        for place in places
    )


def judge_tables(request: TableRequest) -> None:
    """Print what was read, and the answer of each dataset."""
    require("judge", "`orchestrator judge`", "scipy")
    answers = _of_arrays(request) if all(place.endswith(ARRAYS) for place in request.places) else _of_tables(request)
    print_answers(answers, request.form)


def _of_arrays(request: TableRequest) -> list[Answer]:
    metric = request.roles.get("metric") or "rsum"
    judged = runs_of_arrays(request.places, metric)
    lower = is_lower_better(metric) if request.lower is None else request.lower
    about = replace(request.about, metric=metric, lower_is_better=lower)
    _check_baseline(judged, about.baseline)
    said = f"{count_text(len(request.places), 'file')} with values of {judged[0].queries:,} queries."
    how = "named" if request.roles.get("metric") else "guessed"
    return [_read_answer(said, [("metric", _directed(metric, lower), how)], ()), *_answers(judged, about)]


def _of_tables(request: TableRequest) -> list[Answer]:
    records = pivoted([record for place in request.places for record in read_records(place)])
    columns = find_columns(records, **request.roles)
    if request.lower is not None:
        columns = replace(columns, lower_is_better=request.lower)
    judged = runs_of_table(records, columns, split=request.keep, percent=request.percent, count=request.count)
    about = replace(request.about, metric=columns.metric, lower_is_better=columns.lower_is_better)
    _check_baseline(judged, about.baseline)
    said = f"{count_text(len(records), 'row')} of {count_text(len(request.places), 'table')}."
    return [_read_answer(said, _roles(columns), _notes(columns, judged)), *_answers(judged, about)]


def _answers(judged: Sequence[Judged], about: Circumstances) -> list[Answer]:
    verdicts = {}
    for one in judged:
        candidates = [turned_values(runs) if about.lower_is_better else runs for runs in one.candidates]
        verdicts[one.dataset] = TableVerdict(one.dataset, candidates, about)
    answers = [verdict.answer() for verdict in verdicts.values()]
    return [*answers, *([over_datasets(verdicts, about.baseline)] if len(verdicts) > 1 else [])]


def _check_baseline(judged: Sequence[Judged], baseline: str | None) -> None:
    labels = list(dict.fromkeys(runs.label for one in judged for runs in one.candidates))
    if baseline is not None and baseline not in labels:
        raise ConfigError(f"--baseline {baseline}: is no candidate; there are {listed(labels)}")


def _read_answer(said: str, rows: Sequence[tuple[str, str, str]], notes: Sequence[str]) -> Answer:
    """Return what was read, which is shown before the answer."""
    columns = [Column("role", "role"), Column("column", "column"), Column("how", "how")]
    return Answer("read", "", "What was read?", said, table=table_of(columns, list(rows)), notes=tuple(notes))


def _roles(columns: Columns) -> list[tuple[str, str, str]]:
    """Return role, column, and whether it was named or guessed."""
    names = {
        "candidate": "each column of numbers" if columns.is_wide else ", ".join(columns.candidate),
        "metric": _directed(columns.metric, columns.lower_is_better),
        **{
            role: getattr(columns, role) or ""
            for role in ("dataset", "seed", "search", "split", "query", "step", "state", "deviation", "runs")
        },
    }
    return [(role, name, "named" if role in columns.named else "guessed") for role, name in names.items() if name]


def _directed(metric: str, lower_is_better: bool) -> str:
    return f"{metric} ({'lower' if lower_is_better else 'higher'} is better)"


def _notes(columns: Columns, judged: Sequence[Judged]) -> list[str]:
    notes = list(judged[0].notes)
    if columns.seed is None and columns.deviation is None:
        notes.append("No column of seeds: each row of a candidate is taken as a run of its own.")
    if columns.deviation is not None and not any(runs.values for one in judged for runs in one.candidates):
        notes.append("Rows are means with sample deviations over runs.")
    if columns.others and not columns.is_wide:
        few = [*columns.others[:5], *(["…"] if len(columns.others) > 5 else [])]
        notes.append(f"Other columns of numbers (--metric): {', '.join(few)}.")
    return notes
