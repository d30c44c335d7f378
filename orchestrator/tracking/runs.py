"""The runs of an experiment in MLflow: how they are found, and sent in as few requests as possible.

A database takes about as long for one number as for fifty, so a trial that began and ended since the last delivery
sends its params, its tags and its epochs in one request.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.text.values import visible
from orchestrator.tracking import connection
from orchestrator.tracking.address import is_database
from orchestrator.tracking.description import BEST_EPOCH, metrics_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Metric, Param, RunTag


STEPS = ("epoch", "trials_ended", "seeds")
"""Metrics whose step says how far the run of a trial, a study or a confirmed candidate has come."""


PARENT = "mlflow.parentRunId"
"""Tag of MLflow's own that places a run below another."""


@dataclass
class Run:
    """One run as the store holds it.

    Attributes:
        id: MLflow's id of the run.
        artifacts: URI of the place of the run's files: a folder, a bucket or MLflow's server.
        status: ``RUNNING``, ``FINISHED``, ``FAILED`` or ``KILLED``.
        step: The newest step, 0 for none: the newest epoch of a trial, the number of ended trials of a study, the
            number of seeds of a candidate.
        best: The epoch whose metrics the run shows as those of the best epoch, 0 for none.
        tested: Whether the run has test metrics.
        described: Whether the run has its params, and so the file of its config, which is sent before them.
        sent: Which files the run has: ``weights`` of its best model, ``ranks`` of its queries.
        parent: MLflow's id of the run of its study; empty for the run of a study.
    """

    id: str
    artifacts: str
    status: str = "RUNNING"
    step: int = 0
    best: int = 0
    tested: bool = False
    described: bool = False
    sent: set[str] = field(default_factory=set)
    parent: str = ""

    @property
    def fullness(self) -> tuple[int, bool, int, bool]:
        """Sort key: of two runs of one trial, the run with the greater key holds more."""
        return self.step, self.tested, len(self.sent), self.described


def find_experiment(client: "MlflowClient", name: str, *, restores: bool = False) -> "Experiment | None":
    """Return the experiment of a name, or ``None``.

    Raises:
        ExperimentDeletedError: If the experiment was deleted in MLflow's pages, and ``restores`` is false.
        StoreMovedError: If the folder of the database was moved or copied.
    """
    found = client.get_experiment_by_name(name)
    if found is None:
        return None
    if found.lifecycle_stage == "deleted":
        if not restores:
            raise connection.ExperimentDeletedError(f"the experiment {name} was deleted in MLflow's pages")
        client.restore_experiment(found.experiment_id)
    connection.refuse_moved(client, found)
    return found


def find_or_make(client: "MlflowClient", name: str, uri: str, output: Path, *, restores: bool = False) -> str:
    """Return MLflow's id of an experiment, which is made if it is missing; the errors are of ``find_experiment``."""
    found = find_experiment(client, name, restores=restores)
    if found is not None:
        return str(found.experiment_id)
    # A server chooses where its artifacts go. Of a database MLflow would put them under the folder where the user is.
    location = (output.resolve() / connection.ARTIFACTS / name).as_uri() if is_database(uri) else None
    return str(client.create_experiment(name, artifact_location=location))


def existing_runs(client: "MlflowClient", experiment: str) -> Iterator[tuple[str, Run]]:
    """Yield (key, run) for the runs of studies, trials and confirmed candidates in the store."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], max_results=1000, page_token=token, order_by=["attribute.start_time ASC"]
        )
        for run in page:
            key = _key(run.data.tags)
            if key is not None:
                metrics = run.data.metrics
                yield (
                    key,
                    Run(
                        id=run.info.run_id,
                        artifacts=run.info.artifact_uri,
                        status=run.info.status,
                        step=int(max(metrics.get(name, 0) for name in STEPS)),
                        best=int(metrics.get(BEST_EPOCH, 0)),
                        tested=any(metric.startswith("test/") for metric in metrics),
                        described=bool(run.data.params),
                        sent={"weights", "ranks"} & run.data.tags.keys(),
                        parent=run.data.tags.get(PARENT, ""),
                    ),
                )
        token = page.token
        if not token:
            return


def candidate_key(candidate: str) -> str:
    """Return the key of the run that holds the means over the seeds of a confirmed candidate."""
    return f"candidate {candidate}"


def _key(tags: Mapping[str, str]) -> str | None:
    """Return the key of a run: the id of its trial, its candidate or its study."""
    if tags.get("kind") == "candidate" and "candidate" in tags:
        return candidate_key(tags["candidate"])
    return tags.get("trial") or tags.get("study")


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

    def add_metrics(
        self, metrics: Mapping[str, float], seconds: float, step: int | None, *, ends_step: bool = False
    ) -> None:
        """Add metrics, which are sent in one request.

        Args:
            metrics: Metric -> value.
            seconds: Date of the metrics, in seconds since the Unix epoch.
            step: Step of the metrics.
            ends_step: Whether these are all metrics of the step, which is the run's ``step`` once they were sent.
        """
        if len(self._params) + len(self._tags) + len(self._metrics) + len(metrics) > LIMIT:
            self.send()
        self._metrics += metrics_of(metrics, seconds, step)
        if ends_step:
            self._step = step or 0

    def send(self) -> None:
        """Send the params, tags and metrics that were added since the last call, if there are any."""
        if not (self._params or self._tags or self._metrics):
            return
        self._client.log_batch(self._run.id, metrics=self._metrics, params=self._params, tags=self._tags)
        self._run.step = self._step
        self._forget()

    def _forget(self) -> None:
        self._params: list[Param] = []
        self._tags: list[RunTag] = []
        self._metrics: list[Metric] = []
        self._step = self._run.step
