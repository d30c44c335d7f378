"""The params, tags and metrics of a run, sent to MLflow in as few requests as MLflow's limits allow.

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
"""MLflow's limit of metrics, params and tags together in one request."""


class RunBatch:
    """Collects params, tags and metrics of a run until ``send``.

    MLflow stores the params of a request first, then its metrics, then its tags: a tag that confirms params or metrics
    is stored after these, even if the store dies in between.
    """

    def __init__(self, client: "MlflowClient", run: Run) -> None:
        self._client = client
        self._run = run
        self._forget()

    def add_params(self, params: Mapping[str, Any]) -> None:
        """Add params, as text; params of a run cannot change later."""
        from mlflow.entities import Param

        self._params += [Param(name, visible(str(value))) for name, value in params.items()]

    def add_tags(self, tags: Mapping[str, str]) -> None:
        """Add tags."""
        from mlflow.entities import RunTag

        self._tags += [RunTag(name, value) for name, value in tags.items()]

    def add_step(self, metrics: Mapping[str, float], seconds: float, step: int) -> None:
        """Add all metrics of a step, which are sent in one request; afterwards the run's ``step`` is this step.

        Args:
            metrics: Metric -> value.
            seconds: Date of the metrics, in seconds since the Unix epoch.
            step: Step of the metrics, higher than the step of the previous call.
        """
        self._make_room(len(metrics))
        self._metrics += metrics_of(metrics, seconds, step)
        self._step = step

    def add_metrics(self, metrics: Mapping[str, float], seconds: float, step: int | None) -> None:
        """Add metrics without a change of the run's ``step``."""
        self._make_room(len(metrics))
        self._metrics += metrics_of(metrics, seconds, step)

    def send(self) -> None:
        """Send the params, tags and metrics that were added since the last call, if there are any."""
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
