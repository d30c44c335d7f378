"""Addresses of MLflow's pages about experiments and comparisons."""

import json
from collections.abc import Sequence
from urllib.parse import quote

from orchestrator.tracking.connection import find_run, hurried, hush, store_failures
from orchestrator.tracking.view import TAG, TRAINING, page_of
from trainables.extras import is_installed


def newest_page(uri: str) -> str | None:
    """Return the path of the page of our newest experiment, best trials first.

    Returns:
        The part after the server's address; ``None`` where the store does not answer, or has no experiment of ours.
    """
    hush()
    failures = store_failures()
    from mlflow import MlflowClient

    try:
        with hurried():
            newest = MlflowClient(tracking_uri=uri).search_experiments(order_by=["creation_time DESC"])
    except failures:
        return None
    return next((page_of(found.experiment_id) for found in newest if TAG in found.tags), None)


def comparison_page(uri: str, trials: Sequence[tuple[str, str]]) -> str | None:
    """Return the path of MLflow's page that compares some trials' runs.

    Args:
        uri: Address of the store.
        trials: (experiment, trial) of each trial.

    Returns:
        The part after the server's address; ``None`` where the store does not answer or lacks a trial, or MLflow is
        not installed.
    """
    if not is_installed("tracking"):
        return None
    hush()
    failures = store_failures()
    from mlflow import MlflowClient

    runs, experiments = [], []
    try:
        client = MlflowClient(tracking_uri=uri)
        with hurried():
            for experiment, trial in trials:
                found = client.get_experiment_by_name(experiment)
                if found is None:
                    return None
                run = find_run(client, found.experiment_id, trial)
                if run is None:
                    return None
                runs.append(run.info.run_id)
                experiments.append(str(found.experiment_id))
    except failures:
        return None
    query = f"runs={json.dumps(runs)}&experiments={json.dumps(list(dict.fromkeys(experiments)))}"
    return f"/#/compare-runs?{quote(query, safe='=&')}&{TRAINING}"
