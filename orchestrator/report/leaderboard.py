"""The table of all trials: plain rows, which the page sorts and filters."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.journal.history import STANDINGS
from orchestrator.journal.trial import Trial
from orchestrator.report.figures import plain
from orchestrator.report.loss_figures import counted_epoch
from orchestrator.report.studies import Study
from orchestrator.text.values import duration_text, value_text
from orchestrator.text.wording import metric_name, metric_text, metric_words, parameter_names
from trainables.metric_table import COCOS, COCOS_START, VAL, is_in, is_value
from trainables.parameter_values import is_number

PARAMETER = "parameter "
"""Start of the key of a column with a searched parameter."""

WIDEST = 8
"""Most columns of searched parameters that are shown at first: those of most trials."""

SHOWN = ("val/i2t_r1", "val/t2i_r1")
"""Metrics with a column that is shown at first, beside the objectives."""


@dataclass(frozen=True)
class TrialColumn:
    """A column of the leaderboard.

    ``key`` is the column in rows and in the page's address. A numeric column is right-aligned, and sorted from high to
    low at first. A narrow screen shows a minor column in the details of a row. A reader switches a column on that is
    off.
    """

    key: str
    heading: str
    numeric: bool = False
    minor: bool = False
    off: bool = False


@dataclass(frozen=True)
class TrialRow:
    """A trial in the leaderboard.

    By the keys of columns, ``sort`` has the values by which they sort, ``None`` last in both directions, and ``shown``
    the texts. ``details`` are shown, before the texts of the columns, when the row is opened. The trials that repeat
    the setting (``repeats``, ids) have no rows of their own.
    """

    id: str
    repeats: list[str]
    sort: dict[str, Any]
    shown: dict[str, str]
    state: str
    study: str
    details: list[tuple[str, str]]


def leaderboard(
    studies: Sequence[Study], metric: str, further: Sequence[str]
) -> tuple[list[TrialColumn], list[TrialRow]]:
    """Return the columns of all trials, and their rows, the best value first, trials without a value last.

    Replicates of one setting share one row, with the mean of the replicates that finished. ``further`` are the further
    objectives beside the maximised metric.
    """
    rows = [_row(study, trial) for study in studies for trial in study.trials if trial.candidate is None]
    # In the order of the trials, a new leader moves no column; a live page whose columns move is loaded anew.
    columns = _columns(metric, further, rows)
    rows.sort(key=lambda row: (row.sort["value"] is None, -(row.sort["value"] or 0.0), row.sort["trial"]))
    return columns, rows


def _columns(metric: str, further: Sequence[str], rows: Sequence[TrialRow]) -> list[TrialColumn]:
    """Return the columns of some rows: the maximised metric, searched parameters, further objectives and metrics."""
    counts = Counter(key for row in rows for key in row.shown)
    parameters = [key for key in counts if key.startswith(PARAMETER)]
    names = parameter_names(key.removeprefix(PARAMETER) for key in parameters)
    common = sorted(parameters, key=lambda key: -counts[key])[:WIDEST]
    numbers = {key for row in rows for key in parameters if is_number(row.sort.get(key))}
    first = (*further, *(key for key in SHOWN if key not in (metric, *further)))
    metrics = [key for key in counts if "/" in key and key not in (metric, *first, *parameters)]
    # The counts of contributing samples come first, because no other program has them.
    metrics.sort(key=lambda key: not is_in(key, COCOS, COCOS_START))
    return [
        TrialColumn("trial", "Trial"),
        TrialColumn("value", metric_words(metric), numeric=True),
        TrialColumn("state", "State"),
        *(
            TrialColumn(key, name, numeric=key in numbers, minor=True, off=key not in common)
            for key, name in zip(parameters, names.values(), strict=True)
        ),
        *(
            TrialColumn(key, metric_name(key) if is_in(key, VAL) else metric_words(key), True, minor=key not in further)
            for key in first
        ),
        TrialColumn("epochs", "Epochs", numeric=True, minor=True),
        TrialColumn("seconds", "Time", numeric=True, minor=True),
        TrialColumn("epochs_to_95", "Epochs to 95 %", numeric=True, minor=True, off=True),
        *(TrialColumn(key, metric_words(key), numeric=True, minor=True, off=True) for key in metrics),
    ]


def texts_on_charts(columns: Sequence[TrialColumn], rows: Iterable[TrialRow]) -> dict[str, str]:
    """Return what a chart shows of each trial under the pointer: name, state, parameters and value, a line each."""
    named = [*(column for column in columns if column.key.startswith(PARAMETER)), columns[1]]
    texts: dict[str, str] = {}
    for row in rows:
        facts = [(column.heading, row.shown.get(column.key, "")) for column in named]
        name = plain(row.shown["trial"]) + ("" if row.state == "finished" else f" ({plain(row.shown['state'])})")
        lines = [plain(f"{heading}: {text}") for heading, text in facts if text]
        texts |= dict.fromkeys((row.id, *row.repeats), "<br>".join([f"<b>{name}</b>", *lines]))
    return texts


def _row(study: Study, trial: Trial) -> TrialRow:
    point, value = study.points[trial.id], study.value_of(trial)
    name, state = f"{study.label} {trial.number:04d}", point.state.value
    several = f" (mean of {len(point.finished)})" if len(point.finished) > 1 else ""
    reached = trial.epochs_to_95()
    cells: dict[str, tuple[Any, str]] = {
        "trial": (name, name),
        "value": (value, metric_text(trial.metric, value) + several),
        "state": (state, STANDINGS[state]),
        "epochs": (trial.last_epoch, f"{trial.last_epoch} of {trial.total_epochs}"),
        "epochs_to_95": (reached, str(reached or "")),
        "seconds": (round(trial.seconds, 3), duration_text(trial.seconds)),
        **{
            PARAMETER + key: (value if is_number(value) else str(value), value_text(value))
            for key, value in trial.params.items()
        },
    }
    metrics = _metrics(trial)
    sort = {key: value for key, (value, _) in cells.items()} | metrics
    shown = {key: text for key, (_, text) in cells.items()}
    shown |= {key: metric_text(key, value) for key, value in metrics.items()}
    repeats = list(point.trainings[1:])
    confirming = [repeat for repeat in study.repeats if repeat.candidate == trial.id]
    details = _details(trial, [*repeats, *confirming])
    return TrialRow(trial.id, [repeat.id for repeat in repeats], sort, shown, state, study.label, details)


def _metrics(trial: Trial) -> dict[str, float]:
    """Return the further metrics of a trial's best epoch, and the COCOS statistics of the nearest counted epoch."""
    best = dict(trial.at_best)
    epoch = counted_epoch(trial) if trial.best_epoch else None
    if epoch not in (None, trial.best_epoch):
        best |= {name: value for name, value in trial.epochs[epoch].items() if is_in(name, COCOS, COCOS_START)}
    return {name: value for name, value in best.items() if name != trial.metric and is_value(name)}


def _details(trial: Trial, repeats: Sequence[Trial]) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("id", trial.id)]
    if trial.error:
        facts.append(("ended by", trial.error))
    if trial.retries:
        facts.append(("retries", str(trial.retries)))
    facts += [(name, value_text(value)) for name, value in trial.parameters.items() if name not in trial.params]
    facts.append(("seed", str(trial.config.seed)))
    for repeat in repeats:
        reached = metric_text(trial.metric, repeat.best_value)
        facts.append((f"seed {repeat.config.seed}", f"{reached}, {STANDINGS[repeat.state]}"))
    if trial.best_epoch:
        facts.append(("best epoch", str(trial.best_epoch)))
    return facts
