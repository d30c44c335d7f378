"""Makes the runs of an experiment in MLflow, with their curves and files, agree with its journal.

The curve of a study's run is the best value so far against the number of ended trials. The files of a run lie beside
MLflow's database: in a folder, in a bucket, or behind MLflow's server.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from orchestrator.experiment.experiment import ANY
from orchestrator.journal.directory import TrackedRuns, write_runs
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation import confirmations
from orchestrator.results.race import race_outcome
from orchestrator.results.winner import find_champions
from orchestrator.tracking import connection
from orchestrator.tracking.address import pages_of
from orchestrator.tracking.description import (
    BEST_EPOCH,
    ConfirmedCandidate,
    best_of,
    candidate_name,
    confirmed_candidates,
    dataset_of,
    end_of,
    note_of,
    params_of,
    run_name,
    tags_of,
)
from orchestrator.tracking.runs import PARENT, Run, RunBatch, candidate_key, existing_runs, find_or_make
from orchestrator.tracking.view import experiment_tags
from orchestrator.winners.winners import ranks_file, weights_file


class StudyCurve:
    """The curve of one study, which keeps its past, so that a new point takes constant time.

    Args:
        study: Name of the study.
    """

    def __init__(self, study: str) -> None:
        self._study = study
        self._read, self._count = 0, 0
        self._finished: dict[str, list[float]] = {}
        self._best: float | None = None

    def grow(self, history: History) -> Iterator[tuple[int, dict[str, float], float]]:
        """Yield a point of the curve for each trial that ended since the last call.

        Args:
            history: History of the experiment, the same object at each call.

        Yields:
            The number of trials that had ended, the metrics (the best value of a finished trial so far, and that
            number), and the date at which the trial ended, in seconds since the Unix epoch.
        """
        new = history.ended[self._read :]
        for trial in new:
            self._read += 1
            # Repeats train settings that the study has already found.
            if trial.study == self._study and trial.stage is not Stage.CONFIRM:
                self._count += 1
                self._note(trial)
                best = {} if self._best is None else {f"{trial.metric}_best": self._best}
                yield self._count, {**best, "trials_ended": float(self._count)}, trial.ended or 0.0

    def _note(self, trial: Trial) -> None:
        if trial.state is not TrialState.FINISHED or trial.best_value is None:
            return
        trainings = self._finished.setdefault(trial.candidate or trial.id, [])
        trainings.append(trial.best_value)
        if len(trainings) > 1:
            # Trainings of one setting count with their mean, so that a replicate may lower the best value.
            self._best = max(map(fmean, self._finished.values()))
        elif self._best is None or trial.best_value > self._best:
            self._best = trial.best_value


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


class Store:
    """The runs of one experiment in MLflow, which are made to agree with the experiment's journal.

    Its user has taken a turn (``connection.take_turn``): another store of the same experiment would make runs twice.

    Attributes:
        duplicates: Runs that had been made twice, and are in MLflow's trash now.
    """

    def __init__(
        self, uri: str, output: Path, experiment: str, directory: Path | None = None, *, restores: bool = False
    ) -> None:
        """Connect, make the experiment if it is missing, and find the existing runs.

        Args:
            uri: Address of the store.
            output: Root of all output, where the default store lies.
            experiment: Name of the experiment.
            directory: The experiment's directory; by default ``output / experiment``.
            restores: Restore the experiment, with its runs, if it was deleted in MLflow's pages.

        Raises:
            MlflowException: If the store does not answer; see ``store_failures``.
            ExperimentDeletedError: If the experiment was deleted in MLflow's pages, and ``restores`` is false.
            StoreMovedError: If the folder of the database was moved or copied.
        """
        self._directory = directory or output / experiment
        self._uri, self._output = uri, output
        self._client = connection.connect(uri, output)
        self._experiment = find_or_make(self._client, experiment, uri, output, restores=restores)
        self._shown: dict[str, str] = {}
        self._curves: dict[str, StudyCurve] = {}
        self._shown_until = 0
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

    def deliver(self, history: History, trials: Iterable[str], status: Mapping[TrialState, str] = STATUS) -> None:
        """Make the runs of some trials agree with the history; missing runs of their studies are begun."""
        for trial_id in trials:
            trial = history.trials[trial_id]
            parent = self._find_study(trial, history)
            # Tags that a run gets with its creation cost no request of their own.
            end_tags = end_of(trial)
            run, was_made = self._find_trial(trial, history, parent.id, end_tags)
            self._place_below(parent, run)
            batch = RunBatch(self._client, run)
            if not run.described:
                self._client.log_inputs(run.id, datasets=[dataset_of(trial, history)])
                self._describe(run, batch, params_of(trial), "config.yaml", trial.config.to_dict())
            _add_epochs(trial, run, batch)
            _add_best(trial, run, batch)
            _add_test(trial, run, batch, history)
            if run.status != status[trial.state] and not was_made:
                batch.add_tags(end_tags)
            batch.send()
            self._send_results(trial, run)
            # Last, because a run that has its status lacks nothing.
            self._set_status(run, status[trial.state], trial.ended)

    def show_progress(self, history: History) -> None:
        """Send the new points of the studies' curves, of trials that have ended since the last call."""
        for study in dict.fromkeys(trial.study for trial in history.ended[self._shown_until :]):
            self._send_progress(study, self._runs[study], history)
        self._shown_until = len(history.ended)

    def end_studies(self, history: History) -> None:
        """Send the final results of studies and confirmed candidates, and set the status of the studies' runs."""
        status = "FINISHED" if history.finished else "KILLED"
        for name in dict.fromkeys(trial.study for trial in history.trials.values()):
            run = self._runs.get(name)
            if run is None:
                continue
            self._send_progress(name, run, history)
            end = max((trial.ended or 0.0 for trial in history.trials.values() if trial.study == name), default=0.0)
            self._set_status(run, status, end)
        for candidate in confirmed_candidates(history):
            self._send_candidate(candidate, history)
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
        for confirmation in (one for one in confirmations(history).values() if one.is_raced):
            for trial in (one for one in confirmation.repeats if one.id in self._runs):
                outcome = race_outcome(confirmation.race, str(trial.candidate))
                self._client.set_tag(self._runs[trial.id].id, "race", outcome)
        for name in (name for name in history.tests if name in self._runs):
            confirmed = history.trials[name].stage is Stage.CONFIRM
            self._client.set_tag(self._runs[name].id, "winner", str(name in winners).lower())
            self._client.set_tag(self._runs[name].id, "confirmed", str(confirmed).lower())

    def _send_progress(self, study: str, run: Run, history: History) -> None:
        """Send the points of a study's curve that the store lacks."""
        batch = RunBatch(self._client, run)
        for count, values, at in self._curves.setdefault(study, StudyCurve(study)).grow(history):
            if count > run.step:
                batch.add_metrics(values, at, count, ends_step=True)
        batch.send()

    def _send_candidate(self, candidate: ConfirmedCandidate, history: History) -> None:
        """Send the means over the seeds of a confirmed candidate, again after it has got more seeds."""
        trial = candidate.trial
        name = candidate_name(trial, history, candidate.seeds)
        parent = self._find_study(trial, history)
        run = self._runs.get(candidate_key(trial.id))
        if run is None:
            tags = {**tags_of(trial, history), **note_of(trial), "kind": "candidate", "candidate": trial.id}
            # A mean has no seed; the repeats have the seeds.
            del tags["seed"]
            run = self._create(candidate_key(trial.id), name, {**tags, PARENT: parent.id}, trial.created)
        self._place_below(parent, run)
        batch = RunBatch(self._client, run)
        if not run.described:
            self._describe(run, batch, params_of(trial), "config.yaml", trial.config.to_dict())
        if run.step < candidate.seeds:
            self._client.update_run(run.id, name=name)
            batch.add_metrics(candidate.metrics, candidate.ended, candidate.seeds, ends_step=True)
        batch.add_tags(candidate.tags)
        batch.send()
        self._set_status(run, "FINISHED", candidate.ended)

    def open_studies(self, history: History) -> None:
        """Set the studies of an experiment that is resumed to RUNNING."""
        for name in dict.fromkeys(trial.study for trial in history.trials.values()):
            if name in self._runs:
                self._set_status(self._runs[name], "RUNNING")

    def _find_study(self, trial: Trial, history: History) -> Run:
        run = self._runs.get(trial.study)
        if run is None:
            tags = {**tags_of(trial, history), "kind": "study", "study": trial.study}
            if history.experiment.chooses_loss:
                tags["loss"] = ANY
            run = self._create(trial.study, trial.study, tags, trial.created)
        if not run.described:
            batch = RunBatch(self._client, run)
            params = {"sampler": history.experiment.sampler, "metric": history.metric}
            self._describe(run, batch, params, "experiment.yaml", history.experiment.values)
            batch.send()
            self._show(history)
        return run

    def _find_trial(self, trial: Trial, history: History, parent: str, end_tags: Mapping[str, str]) -> tuple[Run, bool]:
        """Return the run of a trial, and whether it was made just now."""
        run = self._runs.get(trial.id)
        if run is not None:
            return run, False
        tags = {**tags_of(trial, history), "kind": "trial", "study": trial.study, "trial": trial.id}
        tags |= {**note_of(trial), PARENT: parent, **end_tags}
        return self._create(trial.id, run_name(trial, history), tags, trial.created), True

    def _create(self, key: str, name: str, tags: dict[str, Any], created: float) -> Run:
        made = self._client.create_run(self._experiment, start_time=round(created * 1000), tags=tags, run_name=name)
        run = self._runs[key] = Run(made.info.run_id, made.info.artifact_uri, parent=tags.get(PARENT, ""))
        return run

    def _place_below(self, parent: Run, run: Run) -> None:
        """Place a run below the run of its study, if its former parent was made twice or deleted in MLflow's pages."""
        if run.parent != parent.id:
            self._client.set_tag(run.id, PARENT, parent.id)
            run.parent = parent.id

    def _describe(
        self, run: Run, batch: RunBatch, params: Mapping[str, Any], file: str, content: Mapping[str, Any]
    ) -> None:
        """Send the file of a config, then add the params, which say that the run has the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_text(yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")
            self._send_files(run, [path])
        batch.add_params(params)
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
        # MLflow's client would ask the store for the place of the run's files, which the run has in ``artifacts``, and
        # keep 7 KB and a pool of threads for each of the newest 1,024 runs.
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


def _add_epochs(trial: Trial, run: Run, batch: RunBatch) -> None:
    """Add whole epochs, each with the metric ``epoch``, which later says how many epochs have been sent."""
    for epoch, reported in sorted(trial.epochs.items()):
        if epoch > run.step:
            best = f"{trial.metric}_best"
            # The deciding metric comes first, because MLflow's comparison pages show metrics in the order of sending.
            first = {best: reported[best]} if best in reported else {}
            counts = {"epochs_to_95": float(trial.epochs_to_95(epoch) or epoch), "epoch": float(epoch)}
            metrics = {**first, **reported, **counts}
            batch.add_metrics(metrics, trial.times[epoch], epoch, ends_step=True)


def _add_best(trial: Trial, run: Run, batch: RunBatch) -> None:
    """Add the metrics of the best epoch under names of their own, where the run shows another epoch as the best."""
    best = trial.best_epoch
    if best is not None and run.best != best:
        # At the last epoch's step, because MLflow shows the value of the highest step.
        metrics = {**best_of(trial.epochs[best]), BEST_EPOCH: float(best)}
        batch.add_metrics(metrics, trial.times[trial.last_epoch], trial.last_epoch)
        run.best = best


def _add_test(trial: Trial, run: Run, batch: RunBatch, history: History) -> None:
    """Add the metrics of the test split, where it has been opened for the trial."""
    if trial.id in history.tests and not run.tested:
        metrics = {f"test/{name}": value for name, value in history.tests[trial.id].items()}
        batch.add_metrics(metrics, trial.times[trial.last_epoch], trial.best_epoch)
        run.tested = True
