"""Makes the runs of an experiment in MLflow, with their curves and files, agree with its journal.

The curve of a study's run is the best value so far against the number of ended trials. The files of a run lie beside
MLflow's database: in a folder, in a bucket, or behind MLflow's server.

A database takes about as long for one number as for fifty. So a trial that began and ended since the last delivery
sends its params, its tags and its epochs in one request.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.experiment.experiment import ANY
from orchestrator.experiment.yaml_files import yaml_text
from orchestrator.journal.directory import TrackedRuns, write_runs
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation import confirmations
from orchestrator.results.race import race_outcome
from orchestrator.results.runs import Runs
from orchestrator.results.winner import find_champions
from orchestrator.text.values import visible
from orchestrator.tracking import connection
from orchestrator.tracking.address import is_database, pages_of
from orchestrator.tracking.description import (
    BEST_EPOCH,
    NOT_COMPARED,
    ORDER,
    best_of,
    candidate_name,
    confirmed_candidates,
    dataset_of,
    end_of,
    note_of,
    params_of,
    run_name,
    stored_metric,
    stored_value,
    tags_of,
)
from orchestrator.tracking.view import experiment_tags
from orchestrator.winners.winners import ranks_file, weights_file
from trainables.metric_table import TEST, is_in, running_best

if TYPE_CHECKING:
    from mlflow import MlflowClient


class CurvePoint(NamedTuple):
    """Metrics that belong together, their date in seconds since the Unix epoch, and their step."""

    metrics: Mapping[str, float]
    seconds: float
    step: int


STEPS = ("epoch", "trials_ended", "seeds")
"""Metrics whose step says how far the run of a trial, a study or a confirmed candidate has come."""

PARENT = "mlflow.parentRunId"
"""Tag of MLflow's own that places a run below another."""

LIMIT = 1000
"""MLflow's limit of metrics, params and tags together in one request."""

STATUS = {
    TrialState.RUNNING: "RUNNING",
    TrialState.FINISHED: "FINISHED",
    TrialState.STOPPED_EARLY: "FINISHED",
    TrialState.DIVERGED: "FAILED",
    TrialState.FAILED: "FAILED",
}
"""State of a trial -> status of its run; the tag ``state`` has the exact state."""

ENDED_STATUS = {**STATUS, TrialState.RUNNING: "KILLED"}
"""``STATUS`` after the end of a search, when no process trains what the journal holds as running."""


@dataclass
class Run:
    """One run as the store holds it.

    Attributes:
        artifacts: URI of the place of the run's files: a folder, a bucket or MLflow's server.
        status: ``RUNNING``, ``FINISHED``, ``FAILED`` or ``KILLED``.
        step: The newest step, 0 for none: the newest epoch of a trial, the number of a study's ended trials, or the
            number of a candidate's seeds.
        best: The epoch whose metrics the run shows as those of the best epoch, 0 for none.
        tested: Whether the run has test metrics.
        described: Whether the run has its params, and so the file of its config, which is sent before them.
        sent: Which files the run has: ``weights`` of its best model, ``ranks`` of its queries.
        parent: MLflow's id of the run of its study; empty for the run of a study.
        verdict: The verdict on a confirmed candidate; empty for other runs.
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
    verdict: str = ""

    @property
    def fullness(self) -> tuple[int, bool, int, bool]:
        """Sort key: of two runs of one trial, the run with the greater key holds more."""
        return self.step, self.tested, len(self.sent), self.described


def find_or_make(client: "MlflowClient", name: str, uri: str, output: Path, *, restores: bool = False) -> str:
    """Return MLflow's id of an experiment, which is made if it is missing; the errors are of ``find_experiment``."""
    experiment = connection.find_experiment(client, name, restores=restores)
    if experiment is not None:
        return str(experiment.experiment_id)
    if not is_database(uri):
        # A server chooses where its artifacts go.
        return str(client.create_experiment(name))
    # MLflow would put them under the folder where the user is. It makes the folder for the first file alone; without
    # the folder, a database that lies elsewhere would look like one whose files were moved.
    location = output.resolve() / connection.ARTIFACTS / name
    location.mkdir(parents=True, exist_ok=True)
    return str(client.create_experiment(name, artifact_location=location.as_uri()))


def existing_runs(client: "MlflowClient", experiment: str) -> Iterator[tuple[str, Run]]:
    """Yield (key, run) for the runs of studies, trials and confirmed candidates in the store."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], max_results=1000, page_token=token, order_by=["attribute.start_time ASC"]
        )
        for run in page:
            tags, metrics = run.data.tags, run.data.metrics
            is_candidate = tags.get("kind") == "candidate" and "candidate" in tags
            key = candidate_key(tags["candidate"]) if is_candidate else tags.get("trial") or tags.get("study")
            if key is not None:
                stored_run = Run(
                    id=run.info.run_id,
                    artifacts=run.info.artifact_uri,
                    status=run.info.status,
                    step=int(max(metrics.get(name, 0) for name in STEPS)),
                    best=int(metrics.get(BEST_EPOCH, 0)),
                    tested=any(is_in(metric, TEST) for metric in metrics),
                    described=bool(run.data.params),
                    sent={"weights", "ranks"} & tags.keys(),
                    parent=tags.get(PARENT, ""),
                    verdict=tags.get("verdict", ""),
                )
                yield key, stored_run
        token = page.token
        if not token:
            return


def candidate_key(candidate: str) -> str:
    """Return the key of the run that holds the means over the seeds of a confirmed candidate."""
    return f"candidate {candidate}"


def send(
    client: "MlflowClient",
    run: str,
    *,
    params: Mapping[str, object] = {},
    points: Iterable[CurvePoint] = (),
    tags: Mapping[str, str] = {},
) -> None:
    """Send params, points and tags to a run in as few requests as possible; a point is in one request.

    Params of a run cannot change later. MLflow stores the params of a request first, then its metrics, then its tags.
    So a tag that confirms params or metrics is stored after these, even if the store dies in between.
    """
    from mlflow.entities import Metric, Param, RunTag

    first = [Param(name, visible(str(value))) for name, value in params.items()]
    last = [RunTag(name, value) for name, value in tags.items()]
    metrics: list[Metric] = []
    for values, seconds, step in points:
        if len(first) + len(metrics) + len(values) + len(last) > LIMIT:
            client.log_batch(run, metrics=metrics, params=first, tags=[])
            first, metrics = [], []
        at = round(seconds * 1000)
        metrics += [Metric(stored_metric(name), stored_value(value), at, step) for name, value in values.items()]
    if first or metrics or last:
        client.log_batch(run, metrics=metrics, params=first, tags=last)


class StudyCurves:
    """The curves of all studies, which keep their past, so that a new point takes constant time."""

    def __init__(self) -> None:
        self._read = 0
        self._counts: Counter[str] = Counter()
        self._best: dict[str, float] = {}
        self._trainings: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def grow(self, history: History) -> Iterator[tuple[str, CurvePoint]]:
        """Yield (study, point) for each trial that ended since the last call with the same history.

        A point has the best value of a finished trial so far and, also as its step, the number of ended trials.
        """
        for trial in history.ended[self._read :]:
            self._read += 1
            # Repeats train settings that the study has already found.
            if trial.stage is not Stage.CONFIRM:
                self._counts[trial.study] += 1
                self._note(trial)
                count, best = self._counts[trial.study], self._best.get(trial.study)
                values = {} if best is None else {running_best(trial.metric): best}
                yield trial.study, CurvePoint({**values, "trials_ended": float(count)}, trial.ended or 0.0, count)

    def _note(self, trial: Trial) -> None:
        if trial.state is not TrialState.FINISHED or trial.best_value is None:
            return
        settings = self._trainings[trial.study]
        trainings = settings[trial.candidate or trial.id]
        trainings.append(trial.best_value)
        # Trainings of one setting count with their mean, so that a replicate may lower the best value.
        self._best[trial.study] = (
            max(map(fmean, settings.values()))
            if len(trainings) > 1
            else max(trial.best_value, self._best.get(trial.study, -inf))
        )


class Store:
    """The runs of one experiment in MLflow, which are made to agree with the experiment's journal.

    Its user has taken a turn (``connection.take_turn``): another store of the same experiment would make runs twice.
    ``duplicates`` counts the runs that had been made twice, and are in MLflow's trash now.
    """

    def __init__(self, uri: str, output: Path, directory: Path, experiment: str, *, restores: bool = False) -> None:
        """Connect, make the experiment if it is missing, and find the existing runs.

        The files of the runs lie in ``directory``; ``restores`` brings a deleted experiment back.

        Raises:
            MlflowException: If the store does not answer; see ``store_failures``.
            ExperimentDeletedError: If the experiment was deleted in MLflow's pages, and ``restores`` is false.
            StoreMovedError: If the folder of the database was moved or copied.
        """
        self._uri, self._output, self._directory = uri, output, directory
        self._client = connection.connect(uri, output)
        self._experiment = find_or_make(self._client, experiment, uri, output, restores=restores)
        self._shown: dict[str, str] = {}
        self._curves = StudyCurves()
        self._runs: dict[str, Run] = {}
        self.duplicates = 0
        for name, run in existing_runs(self._client, self._experiment):
            kept = self._runs.get(name, run)
            if kept is not run:
                # The run was made twice: the answer to the first request was lost, or came after the request was
                # repeated. The run that holds more is kept.
                kept, other = (kept, run) if kept.fullness >= run.fullness else (run, kept)
                self._client.delete_run(other.id)
                self.duplicates += 1
            self._runs[name] = kept

    def deliver(self, history: History, trials: Iterable[str], *, is_over: bool = False) -> None:
        """Make the runs of some trials and of their studies agree with the history, at its end those of candidates too.

        A trial is asked of ``trials`` once the trial before has been delivered. ``is_over`` says that no process
        trains.
        """
        for trial in trials:
            self._send_trial(history.trials[trial], history, is_over=is_over)
        curves: dict[str, list[CurvePoint]] = defaultdict(list)
        for study, point in self._curves.grow(history):
            if point.step > self._runs[study].step:
                curves[study].append(point)
        for study, points in curves.items():
            send(self._client, self._runs[study].id, points=points)
            self._runs[study].step = points[-1].step
        if is_over:
            self._end(history)

    def _send_trial(self, trial: Trial, history: History, *, is_over: bool) -> None:
        was_there, end = trial.id in self._runs, end_of(trial)
        # Tags that a run gets with its creation cost no request of their own.
        identity = {"kind": "trial", "study": trial.study, "trial": trial.id, **tags_of(trial, history), **end}
        run, params = self._find_run(trial.id, run_name(trial, history), identity, trial, history)
        if not is_over:
            self._set_status(self._runs[trial.study], "RUNNING")
        if params:
            self._client.log_inputs(run.id, datasets=[dataset_of(trial, history)])
        status = (ENDED_STATUS if is_over else STATUS)[trial.state]
        tags = end if was_there and run.status != status else {}
        send(self._client, run.id, params=params, points=_points(trial, run, history), tags=tags)
        run.best = run.best if trial.last_epoch < run.step else trial.best_epoch or run.best
        run.step = max(run.step, trial.last_epoch)
        run.tested |= trial.id in history.tests
        self._send_results(trial, run)
        # Last, because a run that has its status lacks nothing.
        self._set_status(run, status, trial.ended)

    def _end(self, history: History) -> None:
        """Send the final results of studies and confirmed candidates, and set the status of the studies' runs."""
        ends: dict[str, float] = defaultdict(float)
        for trial in history.trials.values():
            ends[trial.study] = max(ends[trial.study], trial.ended or 0.0)
        status = "FINISHED" if history.searched else "KILLED"
        for study, ended in ends.items():
            if study in self._runs:
                self._set_status(self._runs[study], status, ended)
        compared = set()
        for candidate, metrics, tags in confirmed_candidates(history):
            self._send_candidate(candidate, metrics, tags, history)
            compared.add(candidate.label)
        # Candidates of a former plan, which the newest verdict does not name.
        for label in {trial.candidate for trial in history.stage(Stage.CONFIRM) if trial.candidate} - compared:
            run = self._runs.get(candidate_key(label))
            if run is not None and run.verdict not in ("", NOT_COMPARED):
                tags = {"verdict": NOT_COMPARED, "rank": ""}
                send(self._client, run.id, tags=_outcome(run, tags, history.trials[label]))
        self._show(history)
        self._tag_winners(history)
        # Pages without links are no reason to end a delivery.
        with suppress(OSError):
            trials = {name: run.id for name, run in self._runs.items() if name in history.trials}
            write_runs(self._directory, TrackedRuns(*pages_of(self._uri, self._output), self._experiment, trials))

    def _show(self, history: History) -> None:
        """Set the tags that choose what the experiment's page shows."""
        for name, value in experiment_tags(history).items():
            if self._shown.get(name) != value:
                self._client.set_experiment_tag(self._experiment, name, value)
                self._shown[name] = value

    def _tag_winners(self, history: History) -> None:
        """Tag repeats with the result of their candidate in a race, and tested trials with whether they won."""
        winners = {trial.id for trial in find_champions(history).values()}
        for confirmation in (value for value in confirmations(history).values() if value.is_raced):
            for trial in (repeat for repeat in confirmation.repeats if repeat.id in self._runs):
                outcome = race_outcome(confirmation.race, str(trial.candidate))
                self._client.set_tag(self._runs[trial.id].id, "race", outcome)
        for name in (name for name in history.tests if name in self._runs):
            confirmed = history.trials[name].stage is Stage.CONFIRM
            self._client.set_tag(self._runs[name].id, "winner", str(name in winners).lower())
            self._client.set_tag(self._runs[name].id, "confirmed", str(confirmed).lower())

    def _send_candidate(
        self, candidate: Runs, metrics: Mapping[str, float], tags: Mapping[str, str], history: History
    ) -> None:
        """Send the means over the seeds of a confirmed candidate, again after it has got more seeds."""
        trial, seeds = history.trials[candidate.label], candidate.count
        ended = max(repeat.ended or 0.0 for repeat in history.stage(Stage.CONFIRM) if repeat.candidate == trial.id)
        # A mean has no seed; the repeats have the seeds.
        identity = {tag: value for tag, value in tags_of(trial, history).items() if tag != "seed"}
        identity |= {"kind": "candidate", "candidate": trial.id}
        name = candidate_name(trial, history, seeds)
        run, params = self._find_run(candidate_key(trial.id), name, identity, trial, history)
        points = [CurvePoint(metrics, ended, seeds)] if run.step < seeds else []
        if points:
            self._client.update_run(run.id, name=name)
        send(self._client, run.id, params=params, points=points, tags=_outcome(run, tags, trial))
        run.step = max(run.step, seeds)
        self._set_status(run, "FINISHED", ended)

    def _find_run(
        self, key: str, name: str, tags: Mapping[str, str], trial: Trial, history: History
    ) -> tuple[Run, Mapping[str, Any]]:
        """Return the run of a trial or a candidate below the run of its study, and the params that it lacks."""
        study = self._find_study(trial, history)
        run = self._runs.get(key)
        if run is None:
            run = self._create(key, name, {**tags, **note_of(trial), PARENT: study.id}, trial.created)
        if run.parent != study.id:
            # Its former parent was made twice, or deleted in MLflow's pages.
            self._client.set_tag(run.id, PARENT, study.id)
            run.parent = study.id
        if run.described:
            return run, {}
        self._send_config(run, "config.yaml", trial.config.to_dict())
        return run, params_of(trial)

    def _find_study(self, trial: Trial, history: History) -> Run:
        run = self._runs.get(trial.study)
        if run is None:
            tags = {**tags_of(trial, history), "kind": "study", "study": trial.study}
            if history.experiment.chooses_loss:
                tags["loss"] = ANY
            run = self._create(trial.study, trial.study, tags, trial.created)
        if not run.described:
            self._send_config(run, "experiment.yaml", history.experiment.values)
            send(self._client, run.id, params={"sampler": history.experiment.sampler, "metric": history.metric})
            self._show(history)
        return run

    def _create(self, key: str, name: str, tags: dict[str, Any], created: float) -> Run:
        made = self._client.create_run(self._experiment, start_time=round(created * 1000), tags=tags, run_name=name)
        run = self._runs[key] = Run(made.info.run_id, made.info.artifact_uri, parent=tags.get(PARENT, ""))
        return run

    def _send_config(self, run: Run, file: str, content: Mapping[str, Any]) -> None:
        """Send the file of a config before the params, which say that the run has the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_text(yaml_text(dict(content)), encoding="utf-8")
            self._send_files(run, [path])
        # Where a request fails, the next attempt reads from the store what the run holds.
        run.described = True

    def _send_results(self, trial: Trial, run: Run) -> None:
        """Send the file of the best model, and both files of the ranks, if they exist; then a tag that says so."""
        ranks = [ranks_file(self._directory, trial, split) for split in ("val", "test")]
        for tag, files in {"weights": [weights_file(self._directory, trial.id)], "ranks": ranks}.items():
            if tag not in run.sent and all(file.is_file() for file in files):
                self._send_files(run, files)
                self._client.set_tag(run.id, tag, " ".join(file.name for file in files))
                run.sent.add(tag)

    def _send_files(self, run: Run, files: Iterable[Path]) -> None:
        """Send files under their own names; an existing file of the run is overwritten."""
        # MLflow's client would ask the store for the place of the run's files, which the run has in ``artifacts``. It
        # would also keep 7 KB and a pool of threads a run, for the newest 1,024 runs.
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        repository = get_artifact_repository(run.artifacts, tracking_uri=self._uri)
        for file in files:
            repository.log_artifact(str(file))

    def _set_status(self, run: Run, status: str, ended: float | None = None) -> None:
        """Set the status of a run and, if it has ended, its end in seconds since the Unix epoch; by default now."""
        if run.status == status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status="RUNNING")
        else:
            self._client.set_terminated(run.id, status, end_time=round(ended * 1000) if ended else None)
        run.status = status


def _outcome(run: Run, tags: Mapping[str, str], trial: Trial) -> Mapping[str, str]:
    """Return the tags of a candidate's run; the description of a former winner loses the sentence of its verdict."""
    former = note_of(trial) if run.verdict.startswith("winner") else {}
    run.verdict = tags["verdict"]
    return {**former, **tags}


def _points(trial: Trial, run: Run, history: History) -> Iterator[CurvePoint]:
    """Yield what the run of a trial lacks: whole epochs, the metrics of the best epoch, the metrics on test.

    The metric ``epoch`` of an epoch later says how many epochs have been sent.
    """
    for epoch, reported in sorted(trial.epochs.items()):
        if epoch > run.step:
            best = running_best(trial.metric)
            # The deciding metric comes first, because MLflow's comparison pages show metrics in the order of sending.
            first = {best: reported[best]} if best in reported else {}
            counts = {"epochs_to_95": float(trial.epochs_to_95(epoch) or epoch), "epoch": float(epoch)}
            yield CurvePoint({**first, **reported, **counts}, trial.times[epoch], epoch)
    # After a loss of power the run may hold epochs that the journal lost: they are trained again, to the same numbers.
    is_behind = trial.last_epoch < run.step and not trial.has_ended
    if trial.best_epoch is not None and run.best != trial.best_epoch and not is_behind:
        # At the last epoch's step, because MLflow shows the value of the highest step.
        metrics = {**best_of(trial.epochs[trial.best_epoch]), BEST_EPOCH: float(trial.best_epoch)}
        if trial.best_value is not None:
            metrics[ORDER] = trial.best_value
        yield CurvePoint(metrics, trial.times[trial.last_epoch], trial.last_epoch)
    if trial.id in history.tests and not run.tested:
        metrics = {f"test/{name}": value for name, value in history.tests[trial.id].items()}
        yield CurvePoint(metrics, trial.times[trial.last_epoch], trial.best_epoch or 0)
