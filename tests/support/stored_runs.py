"""The runs of the experiment ``tiny`` in a store, and whether they say what its journal says."""

from collections import Counter
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from orchestrator.journal.history import History
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.store import STATUS


def stored(output: Path) -> dict[str, Any]:
    """Return the runs of the store by name: status, tags, params, and how often each step of a metric is there."""
    client = MlflowClient(tracking_uri=default_uri(output))
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    found = {}
    for run in client.search_runs([experiment.experiment_id]):
        steps = Counter(
            (name, point.step, point.value)
            for name in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, name)
        )
        name = run.data.tags.get("trial") or run.data.tags.get("study") or run.info.run_name
        assert name not in found, "one run a trial"
        found[name] = (run, steps)
    return found


def assert_store_agrees(history: History, output: Path) -> None:
    found = stored(output)
    assert set(found) == set(history.trials) | {trial.study for trial in history.trials.values()}
    for trial in history.trials.values():
        run, steps = found[trial.id]
        assert run.info.status == {**STATUS, TrialState.RUNNING: "KILLED"}[trial.state]
        assert run.data.params["training.epochs"] == "6"
        assert run.data.tags["mlflow.parentRunId"] == found[trial.study][0].info.run_id
        expected = {
            (name, e, float(f"{value:.6g}")) for e, metrics in trial.epochs.items() for name, value in metrics.items()
        }
        values = {epoch: metrics[trial.metric] for epoch, metrics in trial.epochs.items()}
        for e in values:
            best = max(value for epoch, value in values.items() if epoch <= e)
            expected.add(("epochs_to_95", e, float(min(epoch for epoch in values if values[epoch] >= 0.95 * best))))
        assert {key for key in steps if key[0] != "epoch" and not key[0].startswith(("test/", "at_best/"))} == expected
        assert set(steps.values()) <= {1}
