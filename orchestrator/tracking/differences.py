"""The differences between a store and the journal."""

from collections.abc import Mapping
from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.tracking import connection
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.runs import Run, existing_runs, find_experiment
from orchestrator.tracking.store import STATUS


def find_differences(uri: str, output: Path, experiment: str, history: History) -> list[str]:
    """Return a line about each trial whose run differs from the history, to which no process may be adding records.

    Raises:
        MlflowException: If the store does not answer; see ``store_failures``.
        ExperimentDeletedError: If the experiment was deleted in MLflow's pages.
        StoreMovedError: If the folder of the database was moved or copied.
    """
    if uri == default_uri(output) and not (output / "mlflow.db").is_file():
        return [f"there is no {output / 'mlflow.db'}"] if history.trials else []
    client = connection.connect(uri, output)
    found = find_experiment(client, experiment)
    runs: dict[str, list[Run]] = {}
    for name, run in () if found is None else existing_runs(client, str(found.experiment_id)):
        runs.setdefault(name, []).append(run)
    lines = [_difference(trial, runs, trial.id in history.tests) for trial in history.trials.values()]
    return [line for line in lines if line]


def _difference(trial: Trial, found_runs: Mapping[str, list[Run]], tested: bool) -> str:
    runs = found_runs.get(trial.id, [])
    if len(runs) != 1:
        return f"{trial.id} has {len(runs)} runs"
    status = {**STATUS, TrialState.RUNNING: "KILLED"}[trial.state]
    found, expected = (runs[0].status, runs[0].step, runs[0].tested), (status, trial.last_epoch, tested)
    if runs[0].parent not in [study.id for study in found_runs.get(trial.study, [])]:
        return f"{trial.id} is below a run that is not that of its study"
    return "" if found == expected else f"{trial.id} is {found[0]} at epoch {found[1]}, not {status} at {expected[1]}"
