"""Runs of an MLflow experiment that any program wrote, as records."""

import logging
from typing import Any

from orchestrator.text.addresses import without_password
from trainables.errors import DataError, reason_of
from trainables.extras import require

PAGE = 1000
"""Runs that are asked for at a time."""


def runs_of_experiment(uri: str, name: str) -> list[dict[str, Any]]:
    """Return a record for each run: its tags, parameters, last metrics, name and status.

    A parameter with the name of a metric, or a tag with the name of either, is called ``params.NAME`` or ``tags.NAME``.

    Raises:
        DataError: If the store cannot be reached, or has no such experiment.
    """
    require("tracking", "a store of MLflow", "mlflow")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    try:
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            known = [one.name for one in client.search_experiments(max_results=20)]
            raise DataError(f"mlflow:{without_password(uri)}: has no experiment {name!r}; there are {', '.join(known)}")
        runs: list[Any] = []
        token = None
        while True:
            page = client.search_runs([experiment.experiment_id], max_results=PAGE, page_token=token)
            runs += page
            token = page.token
            if not token:
                break
    except MlflowException as error:
        raise DataError(f"mlflow:{without_password(uri)}: cannot be read: {reason_of(error)}") from None
    return [_record(run) for run in runs]


def _record(run: Any) -> dict[str, Any]:
    metrics = dict(run.data.metrics)
    parameters = {f"params.{key}" if key in metrics else key: value for key, value in run.data.params.items()}
    tags = {
        f"tags.{key}" if key in metrics or key in parameters else key: value
        for key, value in run.data.tags.items()
        if not key.startswith("mlflow.")
    }
    return {"run_name": run.info.run_name, "status": run.info.status, **tags, **parameters, **metrics}
