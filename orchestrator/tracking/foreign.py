"""Runs of an MLflow experiment that any program wrote, as records."""

from typing import Any

from orchestrator.text.addresses import without_password
from orchestrator.tracking.address import is_database
from orchestrator.tracking.connection import StoreFailedError, asking
from orchestrator.tracking.failures import failure_of, store_failures
from trainables.errors import DataError
from trainables.extras import require

PAGE = 1000
"""Runs that are asked for at a time."""


def runs_of_experiment(uri: str, name: str) -> list[dict[str, Any]]:
    """Return a record for each run: its tags, parameters, last metrics, name and status.

    A parameter with the name of a metric, or a tag with the name of either, is called ``params.NAME`` or ``tags.NAME``.

    Raises:
        DataError: If the store cannot be reached, is none, or has no such experiment.
    """
    require("tracking", "a store of MLflow", "mlflow")
    shown = f"mlflow:{without_password(uri)}"
    failures: tuple[type[Exception], ...] = (*store_failures(), ImportError)
    runs: list[Any] = []
    token = None
    try:
        if is_database(uri) and not _is_of_mlflow(uri):
            raise DataError(f"{shown}: is a database without MLflow's tables")
        with asking(uri) as client:
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                known = ", ".join(one.name for one in client.search_experiments(max_results=20))
                raise DataError(f"{shown}: has no experiment {name!r}; there are {known or 'none'}")
            while True:
                page = client.search_runs([experiment.experiment_id], max_results=PAGE, page_token=token)
                runs += page
                token = page.token
                if not token:
                    break
    except failures as error:
        failure = error.failure if isinstance(error, StoreFailedError) else failure_of(error, uri)
        raise DataError(f"{shown}: cannot be read: {failure.reason}") from None
    return [_record(run) for run in runs]


def _is_of_mlflow(uri: str) -> bool:
    """Say whether a database has MLflow's tables, which MLflow would make in any database that it opens."""
    from sqlalchemy import create_engine, inspect

    engine = create_engine(uri)
    try:
        return inspect(engine).has_table("experiments")
    finally:
        engine.dispose()


def _record(run: Any) -> dict[str, Any]:
    metrics = dict(run.data.metrics)
    parameters = {f"params.{key}" if key in metrics else key: value for key, value in run.data.params.items()}
    tags = {
        f"tags.{key}" if key in metrics or key in parameters else key: value
        for key, value in run.data.tags.items()
        if not key.startswith("mlflow.")
    }
    return {"run_name": run.info.run_name, "status": run.info.status, **tags, **parameters, **metrics}
