"""The table of all trials: plain rows, which the page sorts and filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.journal.points import Point
from orchestrator.journal.trial import Trial
from orchestrator.report.figures import short
from orchestrator.report.studies import Study
from orchestrator.text.values import duration_text, metric_text, value_text, values_text


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard.

    Attributes:
        key: Key in the rows' ``sort`` and ``shown``.
        heading: Heading of the column.
        numeric: Whether the column is right-aligned, and sorted from high to low at first.
        minor: Whether a narrow screen shows the column in the row's details.
    """

    key: str
    heading: str
    numeric: bool = False
    minor: bool = False


@dataclass(frozen=True)
class Row:
    """A trial in the leaderboard.

    Attributes:
        id: Id of the trial.
        sort: Column -> value by which the column sorts; ``None`` sorts last in both directions.
        shown: Column -> text in the column.
        state: State in the journal.
        study: Label of the trial's study.
        details: Names and values that are shown when the row is opened.
    """

    id: str
    sort: dict[str, Any]
    shown: dict[str, str]
    state: str
    study: str
    details: list[tuple[str, str]]


def columns(metric: str, further: Sequence[str] = ()) -> list[Column]:
    """Return the columns, for the metric that was maximised and the further objectives."""
    return [
        Column("trial", "Trial"),
        Column("value", short(metric), numeric=True),
        *(Column(name, short(name), numeric=True) for name in further),
        Column("i2t_r1", "i2t R@1", numeric=True, minor=True),
        Column("t2i_r1", "t2i R@1", numeric=True, minor=True),
        Column("state", "State"),
        Column("epochs", "Epochs", numeric=True, minor=True),
        Column("epochs_to_95", "To 95 %", numeric=True, minor=True),
        Column("seconds", "Time", numeric=True, minor=True),
        Column("params", "Parameters", minor=True),
    ]


def leaderboard(studies: Sequence[Study], further: Sequence[str] = ()) -> list[Row]:
    """Return all trials, the best value first, trials without a value last, with the values of further objectives.

    Replicates of one setting stand in one row, with the mean of the replicates that finished.
    """
    rows = [_row(study, trial, further) for study in studies for trial in study.trials if trial.candidate is None]
    return sorted(rows, key=lambda row: (row.sort["value"] is None, -(row.sort["value"] or 0.0), row.sort["trial"]))


def _row(study: Study, trial: Trial, further: Sequence[str]) -> Row:
    best = trial.epochs.get(trial.best_epoch or 0, {})
    point = study.points[trial.id]
    sort: dict[str, Any] = {
        "trial": study.name_of(trial),
        "value": study.value_of(trial),
        **{name: best.get(name) for name in further},
        "i2t_r1": best.get("val/i2t_r1"),
        "t2i_r1": best.get("val/t2i_r1"),
        "state": point.state.value,
        "epochs": trial.last_epoch,
        "epochs_to_95": trial.epochs_to_95(),
        "seconds": round(trial.seconds, 3),
        "params": values_text(trial.parameters),
    }
    shown = {
        **{key: metric_text(key, sort[key]) for key in ("i2t_r1", "t2i_r1", *further)},
        **{key: str(sort[key]) for key in ("trial", "params")},
        "value": metric_text(trial.metric, study.value_of(trial)) + _trainings(point),
        "state": point.state.value.replace("_", " "),
        "epochs": f"{trial.last_epoch} of {trial.total_epochs}",
        "epochs_to_95": str(sort["epochs_to_95"] or ""),
        "seconds": duration_text(trial.seconds),
    }
    repeats = [*point.trainings[1:], *(one for one in study.repeats if one.candidate == trial.id)]
    return Row(trial.id, sort, shown, point.state.value, study.label, _details(trial, best, repeats))


def _trainings(point: Point) -> str:
    """Return a text about the number of trainings whose mean a value is; empty for a single training."""
    return f" (mean of {len(point.finished)})" if len(point.finished) > 1 else ""


def _details(trial: Trial, best: Mapping[str, float], repeats: Sequence[Trial]) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("id", trial.id)]
    if trial.error:
        facts.append(("ended by", trial.error))
    if trial.retries:
        facts.append(("retries", str(trial.retries)))
    facts += [(f"after epoch {move.epoch}", f"took over the model of {move.source}") for move in trial.moves]
    facts += [(name, value_text(value)) for name, value in trial.parameters.items()]
    facts.append(("seed", str(trial.config.seed)))
    for repeat in repeats:
        reached = metric_text(trial.metric, repeat.best_value)
        facts.append((f"seed {repeat.config.seed}", f"{reached}, {repeat.state.value.replace('_', ' ')}"))
    if trial.best_epoch:
        facts.append(("best epoch", str(trial.best_epoch)))
    facts += [(name, value_text(value)) for name, value in best.items() if not name.endswith("_best")]
    return facts
