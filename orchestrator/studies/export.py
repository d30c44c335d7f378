"""The trials of a search as an Optuna storage, which Optuna's own tools (optuna-dashboard, its plots) open."""

import errno
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState
from sqlalchemy.exc import OperationalError

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial
from orchestrator.studies.samplers import distribution
from orchestrator.studies.study import STATES
from orchestrator.text.addresses import database_address
from search_spaces import Range, Values
from trainables.files import aside


def write_storage(history: History, experiment: Experiment, path: Path) -> int:
    """Write the trials of the search into an SQLite file, a study of Optuna for each study; return how many.

    A trial has its parameters with the distributions that were searched, and its state. Its intermediate values are the
    metric of each epoch, its values those of the objectives at its best epoch. A trial that was stopped early is
    *pruned* and has its last intermediate value, as Optuna keeps pruned trials. A trial that diverged or failed is
    *failed*, a trial that has not ended *running*. Id, seed, best epoch and error are user attributes. Optuna allows no
    intermediate values with several objectives. Trials of a confirmation, which repeat others, are left out. An
    existing file is replaced.

    Raises:
        OSError: If the file cannot be written, e.g. because the disk is full; nothing is left of the export.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # SQLite keeps a journal beside its file, which goes with the folder.
    with aside(path) as folder:
        partial = folder / path.name
        try:
            storage = RDBStorage(database_address(partial))
            written = sum(_write_study(storage, history, experiment, cell) for cell in experiment.cells())
            storage.remove_session()
            storage.engine.dispose()
        except (OperationalError, StorageInternalError) as error:
            cause = error.__cause__ if isinstance(error, StorageInternalError) else error
            reason = cause.orig if isinstance(cause, OperationalError) else error
            raise OSError(errno.ENOSPC, str(reason), str(path)) from error
        partial.replace(path)
    return written


def _write_study(storage: RDBStorage, history: History, experiment: Experiment, cell: Cell) -> int:
    goals = experiment.search.goals
    # The study selects its best epochs by the first metric.
    goals = (goals[0].model_copy(update={"metric": cell.metric}), *goals[1:])
    study = optuna.create_study(
        storage=storage, study_name=f"{experiment.name}/{cell.name}", directions=[goal.direction for goal in goals]
    )
    study.set_metric_names([goal.metric for goal in goals])
    trials = [_frozen(trial, cell, [goal.metric for goal in goals]) for trial in history.study(cell.name)]
    study.add_trials(trials)
    return len(trials)


def _frozen(trial: Trial, cell: Cell, metrics: list[str]) -> FrozenTrial:
    bounds = cell.space.bounds()
    state = STATES.get(trial.state, OptunaState.RUNNING)
    values = None
    if state is OptunaState.COMPLETE and trial.at_best:
        values = [trial.at_best[metric] for metric in metrics]
    curve = {epoch: row[trial.metric] for epoch, row in trial.epochs.items()} if len(metrics) == 1 else {}
    if state is OptunaState.PRUNED and curve:
        values = [curve[trial.last_epoch]]
    about = {"trial": trial.id, "seed": trial.config.seed, "best_epoch": trial.best_epoch, "error": trial.error}
    made = create_trial(
        state=state,
        values=values,
        params={name: _plain(value) for name, value in trial.params.items()},
        distributions={name: distribution(_plain_bound(bounds[name])) for name in trial.params},
        intermediate_values=curve,
        user_attrs={name: value for name, value in about.items() if value is not None},
    )
    made.datetime_start = _when(trial.created)
    if trial.ended is not None:
        made.datetime_complete = _when(trial.ended)
    return made


def _when(moment: float) -> datetime:
    """Return a time of the journal as Optuna stores times: local, without a zone."""
    return datetime.fromtimestamp(moment, UTC).astimezone().replace(tzinfo=None)


def _plain(value: Any) -> Any:
    """Return a value that Optuna's database can hold: coefficients become text."""
    return str(list(value)) if isinstance(value, list | tuple) else value


def _plain_bound(bound: Range | Values) -> Range | Values:
    return replace(bound, values=tuple(map(_plain, bound.values))) if isinstance(bound, Values) else bound
