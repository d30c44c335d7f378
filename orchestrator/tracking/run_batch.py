"""What a run is to hold beside its files, sent to MLflow in as few requests as MLflow's limits allow.

A database takes about as long for one number as for fifty, so a trial that began and ended since the last delivery
sends its params, its tags and its epochs in one request.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.text.values import visible
from orchestrator.tracking.description import metrics_of
from orchestrator.tracking.runs import Run

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

LIMIT = 1000
"""Metrics, params and tags in one request together, MLflow's limit."""


class RunBatch:
    """Collects params, tags and metrics of a run until ``send``.

    MLflow stores the params of a request first, then its metrics, then its tags: a tag which says that something is
    there comes after what it speaks of, also where the store dies between the three.
    """

    def __init__(self, client: "MlflowClient", run: Run) -> None:
        self._client = client
        self._run = run
        self._forget()

    def add_params(self, params: Mapping[str, Any]) -> None:
        """Take params, as text; of a run they cannot change."""
        from mlflow.entities import Param

        self._params += [Param(name, visible(str(value))) for name, value in params.items()]

    def add_tags(self, tags: Mapping[str, str]) -> None:
        """Take tags."""
        from mlflow.entities import RunTag

        self._tags += [RunTag(name, value) for name, value in tags.items()]

    def add_step(self, metrics: Mapping[str, float], seconds: float, step: int) -> None:
        """Take all metrics of a step, which arrive in one request; the run's ``step`` is this one once they have.

        Args:
            metrics: By name.
            seconds: When they were recorded, in seconds since 1970.
            step: Higher than that of the call before.
        """
        self._make_room(len(metrics))
        self._metrics += metrics_of(metrics, seconds, step)
        self._step = step

    def add_metrics(self, metrics: Mapping[str, float], seconds: float, step: int | None) -> None:
        """Take metrics of a step that says nothing of how far the run came."""
        self._make_room(len(metrics))
        self._metrics += metrics_of(metrics, seconds, step)

    def send(self) -> None:
        """Send what was taken since the last time, if anything was."""
        if not (self._params or self._tags or self._metrics):
            return
        self._client.log_batch(self._run.id, metrics=self._metrics, params=self._params, tags=self._tags)
        self._run.step = self._step
        self._forget()

    def _make_room(self, metrics: int) -> None:
        if len(self._params) + len(self._tags) + len(self._metrics) + metrics > LIMIT:
            self.send()

    def _forget(self) -> None:
        self._params: list[Param] = []
        self._tags: list[RunTag] = []
        self._metrics: list[Metric] = []
        self._step = self._run.step
