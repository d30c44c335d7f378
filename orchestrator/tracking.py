"""The journal in MLflow: a parent run a study, a run a trial, each metric once. ``registry`` alone imports MLflow, too.

Nothing is sent as an event: what a trial's run holds is compared with what the journal says, and the difference is
sent. Runs are found again by their tags, so that it does not matter which process began them, or what it came to.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import yaml

from orchestrator.artifacts import protocol_of, trial_artifacts
from orchestrator.experiment import ANY
from orchestrator.history import History, Stage, Trial, TrialState
from orchestrator.summary import find_champions
from orchestrator.workload import data_key
from trainables.config import TrialConfig
from trainables.errors import ConfigError

# Read by MLflow when it is imported.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# Retries are the tracker's; a request that is lost is found out by looking. A slow answer is waited for a while.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric

STATUS = {
    TrialState.RUNNING: "RUNNING",
    TrialState.FINISHED: "FINISHED",
    TrialState.STOPPED_EARLY: "FINISHED",
    TrialState.DIVERGED: "FAILED",
    TrialState.FAILED: "FAILED",
}
"""The status of a trial's run; the exact state is in its tag ``state``."""

DEFAULT_CREDENTIALS = ("admin", "password1234")
"""What MLflow's basic auth comes with."""

BATCH = 1000
"""Metrics in one request, MLflow's limit."""


def default_uri(output: Path) -> str:
    """Return the store that all experiments under an output directory share."""
    return f"sqlite:///{output.resolve() / 'mlflow.db'}"


@dataclass
class Run:
    """What the store holds of one run.

    Attributes:
        id: MLflow's name for it.
        status: ``RUNNING``, ``FINISHED``, ``FAILED`` or ``KILLED``.
        epoch: The newest epoch that it holds; 0 for none.
        tested: Whether it holds test metrics.
        described: Whether it holds its config.
    """

    id: str
    status: str = "RUNNING"
    epoch: int = 0
    tested: bool = False
    described: bool = False


class Store:
    """The runs of one experiment in MLflow, made to agree with a history."""

    def __init__(self, uri: str, output: Path, experiment: str) -> None:
        """Connect, make the experiment where it is missing, and find the runs that are there.

        Raises:
            MlflowException: If the store does not answer.
        """
        self._client = _connect(uri, output)
        self._experiment = _find_or_make(self._client, experiment, uri, output)
        self._runs: dict[str, Run] = {}
        for name, run in _existing(self._client, self._experiment):
            if name in self._runs:
                # Made twice: the answer to the first request was lost before it was carried out.
                self._client.delete_run(run.id)
            else:
                self._runs[name] = run

    def deliver(self, history: History, trials: Iterable[str], status: Mapping[TrialState, str] = STATUS) -> None:
        """Make the runs of some trials, and of their studies, agree with the history."""
        for trial_id in trials:
            trial = history.trials[trial_id]
            parent = self._find_study(trial, history)
            run = self._find_trial(trial, history, parent.id)
            self._send_epochs(trial, run)
            self._send_test(trial, run, history)
            if trial.has_ended and run.status == "RUNNING":
                self._send_artifacts(trial, run)
            self._set_status(run, status[trial.state], state=str(trial.state))

    def end_studies(self, history: History, status: str) -> None:
        """Give the parent runs their status and the best value of their trials."""
        for name in dict.fromkeys(trial.study for trial in history.trials.values()):
            run = self._runs.get(name)
            if run is None:
                continue
            ended = [trial for trial in history.study(name) if trial.state is TrialState.FINISHED]
            best = max((trial.best_value for trial in ended if trial.best_value is not None), default=None)
            if best is not None:
                # With the time of the last end, because a store keeps one of two equal entries.
                at = round(max(trial.ended or 0.0 for trial in ended) * 1000)
                self._client.log_metric(run.id, f"{ended[0].metric}_best", best, timestamp=at, step=len(ended))
            self._set_status(run, status)
        self._tag_winners(history)

    def _tag_winners(self, history: History) -> None:
        """Say of each run that was looked at on test whether its model is the winner's, and confirmed."""
        winners = {trial.id for trial in find_champions(history).values()}
        for name in (name for name in history.tests if name in self._runs):
            confirmed = history.trials[name].stage is Stage.CONFIRM
            self._client.set_tag(self._runs[name].id, "winner", str(name in winners).lower())
            self._client.set_tag(self._runs[name].id, "confirmed", str(confirmed).lower())

    def open_studies(self, history: History) -> None:
        """Show the studies of an experiment that goes on as running."""
        for name in dict.fromkeys(trial.study for trial in history.trials.values()):
            if name in self._runs:
                self._set_status(self._runs[name], "RUNNING")

    def _find_study(self, trial: Trial, history: History) -> Run:
        tags = {**_tags(trial, history), "kind": "study", "study": trial.study}
        if history.experiment["search"].get("loss") == "choose":
            tags["loss"] = ANY
        run = self._runs.get(trial.study) or self._create(trial.study, tags, trial.created)
        if not run.described:
            search = history.experiment["search"]
            params = {"sampler": search["sampler"], "metric": search["metric"]}
            self._describe(run, params, "experiment.yaml", history.experiment)
        return run

    def _find_trial(self, trial: Trial, history: History, parent: str) -> Run:
        tags = {**_tags(trial, history), "kind": "trial", "study": trial.study, "trial": trial.id}
        run = self._runs.get(trial.id)
        run = run or self._create(trial.id, {**tags, "mlflow.parentRunId": parent}, trial.created)
        if not run.described:
            self._client.log_inputs(run.id, datasets=[_dataset(trial, history)])
            self._describe(run, _params(trial), "config.yaml", trial.config)
        return run

    def _send_artifacts(self, trial: Trial, run: Run) -> None:
        """Send what is looked at after the end; a file that is there already is written over."""
        for name, content in trial_artifacts(trial).items():
            self._client.log_text(run.id, content, name)

    def _create(self, name: str, tags: dict[str, Any], created: float) -> Run:
        made = self._client.create_run(self._experiment, start_time=round(created * 1000), tags=tags, run_name=name)
        run = self._runs[name] = Run(made.info.run_id)
        return run

    def _describe(self, run: Run, params: Mapping[str, Any], file: str, content: Mapping[str, Any]) -> None:
        """Send the config as a file and as params; a tag, which comes with the params, says that both are there."""
        from mlflow.entities import Param, RunTag

        self._client.log_text(run.id, yaml.safe_dump(dict(content), sort_keys=False), file)
        named = [Param(name, str(value)) for name, value in params.items()]
        self._client.log_batch(run.id, params=named, tags=[RunTag("described", "true")])
        run.described = True

    def _send_epochs(self, trial: Trial, run: Run) -> None:
        """Send whole epochs, each together with the metric ``epoch``, which tells later how far this came."""
        batch: list[Metric] = []
        for epoch in sorted(epoch for epoch in trial.epochs if epoch > run.epoch):
            metrics = {**trial.epochs[epoch], "epoch": float(epoch)}
            if len(batch) + len(metrics) > BATCH:
                self._send(run, batch, epoch - 1)
                batch = []
            batch += _metrics(metrics, trial.times[epoch], epoch)
        self._send(run, batch, trial.last_epoch)

    def _send(self, run: Run, batch: list["Metric"], epoch: int) -> None:
        if batch:
            self._client.log_batch(run.id, metrics=batch)
            run.epoch = epoch

    def _send_test(self, trial: Trial, run: Run, history: History) -> None:
        if trial.id in history.tests and not run.tested:
            metrics = {f"test/{name}": value for name, value in history.tests[trial.id].items()}
            self._client.log_batch(run.id, metrics=_metrics(metrics, trial.times[trial.last_epoch], trial.best_epoch))
            run.tested = True

    def _set_status(self, run: Run, status: str, **tags: str) -> None:
        if run.status == status:
            return
        for name, value in tags.items():
            self._client.set_tag(run.id, name, value)
        if status == "RUNNING":
            self._client.update_run(run.id, status="RUNNING")
        else:
            self._client.set_terminated(run.id, status)
        run.status = status


def find_differences(uri: str, output: Path, experiment: str, history: History) -> list[str]:
    """Return in which trials a store differs from a history that nobody adds to, one line each.

    Raises:
        MlflowException: If the store does not answer; see ``store_failures``.
    """
    if uri == default_uri(output) and not (output / "mlflow.db").is_file():
        return [f"there is no {output / 'mlflow.db'}"] if history.trials else []
    client = _connect(uri, output)
    found = client.get_experiment_by_name(experiment)
    runs: dict[str, list[Run]] = {}
    for name, run in () if found is None else _existing(client, str(found.experiment_id)):
        runs.setdefault(name, []).append(run)
    lines = [_difference(trial, runs.get(trial.id, []), trial.id in history.tests) for trial in history.trials.values()]
    return [line for line in lines if line]


def _difference(trial: Trial, runs: list[Run], tested: bool) -> str:
    if len(runs) != 1:
        return f"{trial.id} has {len(runs)} runs"
    status = {**STATUS, TrialState.RUNNING: "KILLED"}[trial.state]
    found, expected = (runs[0].status, runs[0].epoch, runs[0].tested), (status, trial.last_epoch, tested)
    return "" if found == expected else f"{trial.id} is {found[0]} at epoch {found[1]}, not {status} at {expected[1]}"


def count_experiments(uri: str) -> int:
    """Return how many experiments a store holds, after one attempt of a few seconds.

    Raises:
        ConnectionError: If it does not answer.
    """
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
    _hush()
    failures = store_failures()
    from mlflow import MlflowClient

    try:
        return len(MlflowClient(tracking_uri=uri).search_experiments())
    except failures as error:
        raise ConnectionError(f"{uri}: {first_line(error)}") from None


def comparison_page(uri: str, trials: Sequence[tuple[str, str]]) -> str | None:
    """Return the path of MLflow's page that compares some trials' runs.

    Args:
        uri: Of the store.
        trials: Experiment and trial of each.

    Returns:
        The part after the server's address; ``None`` where the store does not answer, or lacks one of them.
    """
    _hush()
    failures = store_failures()
    from mlflow import MlflowClient

    runs, experiments = [], []
    try:
        client = MlflowClient(tracking_uri=uri)
        for experiment, trial in trials:
            found = client.get_experiment_by_name(experiment)
            if found is None:
                return None
            page = client.search_runs([found.experiment_id], f"tags.trial = '{trial}'")
            if not page:
                return None
            runs.append(page[0].info.run_id)
            experiments.append(str(found.experiment_id))
    except failures:
        return None
    query = f"runs={json.dumps(runs)}&experiments={json.dumps(list(dict.fromkeys(experiments)))}"
    return f"/#/compare-runs?{quote(query, safe='=&')}"


def refuse_default_password(uri: str) -> None:
    """Refuse to use a server with the password that MLflow's basic auth comes with: everybody knows it.

    Raises:
        ConfigError: If the address or the environment has it.
    """
    parts = urlsplit(uri)
    given = (parts.username, parts.password) if parts.password else _credentials()
    if parts.scheme in ("http", "https") and given == DEFAULT_CREDENTIALS:
        raise ConfigError(
            f"{parts.scheme}://{parts.hostname}: MLflow's default password is in use; change it on the server "
            f"(basic_auth.ini, or its users page), then set MLFLOW_TRACKING_PASSWORD to the new one"
        )


def _credentials() -> tuple[str | None, str | None]:
    return os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")


def store_failures() -> tuple[type[Exception], ...]:
    """Return what a store may raise; a database that cannot be opened is not wrapped by MLflow."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, OSError


def _hush() -> None:
    for name in ("alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.ERROR)


def first_line(error: Exception) -> str:
    """Return what an error says, without the traces that MLflow puts into it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _connect(uri: str, output: Path) -> "MlflowClient":
    """Open the store; a database is made by one process at a time, because two at once break its migration."""
    _hush()
    from mlflow import MlflowClient

    with _alone(output / ".mlflow.lock"):
        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
    return client


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _find_or_make(client: "MlflowClient", name: str, uri: str, output: Path) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    # A server knows where its artifacts go; a database file does not.
    location = (output.resolve() / "artifacts" / name).as_uri() if uri.startswith("sqlite:") else None
    return str(client.create_experiment(name, artifact_location=location))


def _existing(client: "MlflowClient", experiment: str) -> Iterator[tuple[str, Run]]:
    """Yield the runs of studies and trials that the store holds, by the tag that names them."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], max_results=1000, page_token=token, order_by=["attribute.start_time ASC"]
        )
        for run in page:
            name = run.data.tags.get("trial") or run.data.tags.get("study")
            if name is not None:
                metrics = run.data.metrics
                yield (
                    name,
                    Run(
                        id=run.info.run_id,
                        status=run.info.status,
                        epoch=int(metrics.get("epoch", 0)),
                        tested=any(metric.startswith("test/") for metric in metrics),
                        described="described" in run.data.tags,
                    ),
                )
        token = page.token
        if not token:
            return


def _tags(trial: Trial, history: History) -> dict[str, str]:
    config, environment = trial.config, history.environment
    return {
        **{name: str(config[name]) for name in ("dataset", "model", "loss", "seed")},
        "protocol": protocol_of(config["dataset"]),
        "stage": str(trial.stage),
        **({"candidate": trial.candidate} if trial.candidate else {}),
        "experiment": history.experiment["name"],
        "data_digest": history.data.get(data_key(TrialConfig.from_dict(config)), ""),
        "git_revision": str(environment.get("git_revision")),
        **{f"version.{name}": value for name, value in environment.get("versions", {}).items()},
    }


def _params(trial: Trial) -> dict[str, Any]:
    """Return the coefficients under their own names, and the rest of the config under dotted ones."""
    config = trial.config
    rest = {f"training.{name}": value for name, value in config["training"].items()}
    names = {name: config[name] for name in ("dataset", "model", "loss", "seed", "vocabulary")}
    coefficients = dict(_coefficients(config["loss_parameters"]))
    model = {f"model.{name}": value for name, value in config["model_parameters"].items()}
    return {**coefficients, **names, **model, **rest}


def _coefficients(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield hyper-parameters as numbers where they are, which charts can put on an axis: e_1 beside coefficients."""
    for name, value in parameters.items():
        yield name, json.dumps(value) if isinstance(value, list | tuple) else value
        if isinstance(value, list | tuple):
            yield from ((f"{name}.{power}", number) for power, number in enumerate(value))


def _dataset(trial: Trial, history: History) -> "DatasetInput":
    """Return what MLflow shows as the dataset of a run."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    config = TrialConfig.from_dict(trial.config)
    key = data_key(config)
    digest = history.data.get(key, "")
    source = json.dumps({"dataset": config.dataset, "features": config.features, "digest": digest})
    # MLflow keeps 36 characters of a digest.
    dataset = Dataset(name=config.dataset[-500:], digest=digest[:36], source_type="local", source=source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def _metrics(values: Mapping[str, float], seconds: float, step: int | None) -> list["Metric"]:
    from mlflow.entities import Metric

    return [Metric(name, value, round(seconds * 1000), step or 0) for name, value in values.items()]
