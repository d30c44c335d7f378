"""What must hold of an experiment after whatever was done to it: the one judge of all fault tests."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import psutil
from mlflow import MlflowClient

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import EpochEnded, Record, has_ended
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.answers import summarise
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.store import STATUS
from tests.faults.troubled_workload import trained_epochs
from tests.support.fake_workload import curve
from tests.support.waiting import wait_until


def assert_invariants(
    output: Path,
    *,
    before: Iterable[History] = (),
    log: Path | None = None,
    kills: int = 0,
    tracking_uri: str | None = None,
    strays: bool = False,
) -> None:
    """Judge a search that has come to its end, after ``kills`` of something while a trial may have been training.

    ``before`` is what the journal said after each of them, ``log`` what ``TroubledWorkload`` wrote down. With
    ``strays``, an actor of a former driver may have died while it was writing.
    """
    records = read_journal(output / "tiny" / "journal.jsonl")
    history = History.of(records)
    assert_ended_once(records, history)
    assert_tracked_once(tracking_uri or default_uri(output), history)
    for earlier in before:
        assert_kept(earlier, history)
    if log is not None:
        assert_little_lost(log, history, kills)
    assert_sound(output, history)
    assert_winner(output, history)
    assert_nothing_left(output, strays=strays)


def assert_recorded_once(output: Path, name: str = "tiny") -> None:
    """One terminal state and one run a trial, each epoch and step once: journal and MLflow agree."""
    records = read_journal(output / name / "journal.jsonl")
    history = History.of(records)
    assert_ended_once(records, history)
    assert_tracked_once(default_uri(output), history)


def assert_ended_once(records: list[Record], history: History) -> None:
    """One terminal state a trial, each epoch once, none missing, none after the end."""
    ends = Counter(record.trial for record in records if has_ended(record))
    assert ends == {trial: 1 for trial in history.trials}
    for trial in history.trials.values():
        own = [record for record in records if isinstance(record, EpochEnded) and record.trial == trial.id]
        assert [record.epoch for record in own] == list(range(1, trial.last_epoch + 1))
        assert all(record.time <= (trial.ended or 0) for record in own)


def assert_tracked_once(uri: str, history: History) -> None:
    """One run a trial and a confirmed candidate, in the same state, each step once, none left running."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(history.experiment.name or "")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    by_trial = {run.data.tags["trial"]: run for run in runs if "trial" in run.data.tags}
    kinds = Counter(run.data.tags["kind"] for run in runs)
    candidates = (
        {trial.candidate for trial in history.trials.values() if trial.candidate} if "candidate" in kinds else ()
    )
    studies = {trial.study for trial in history.trials.values()}
    assert (kinds["trial"], kinds["study"], kinds["candidate"]) == (len(by_trial), len(studies), len(candidates))
    assert set(by_trial) == set(history.trials)
    for name, run in by_trial.items():
        trial = history.trials[name]
        steps = [point.step for point in client.get_metric_history(run.info.run_id, "val/rsum")]
        assert (run.info.status, steps) == (STATUS[trial.state], sorted(trial.epochs))
    assert all(run.info.status != "RUNNING" for run in runs)


def assert_kept(earlier: History, final: History) -> None:
    """What had ended stays as it was, and what ran keeps its epochs."""
    for trial in earlier.trials.values():
        if trial.state is not TrialState.RUNNING:
            assert final.trials[trial.id] == trial
        else:
            assert {epoch: final.trials[trial.id].times[epoch] for epoch in trial.times} == trial.times


def assert_little_lost(log: Path, history: History, kills: int) -> None:
    """A kill costs a trial one epoch at most, which is the interval between two checkpoints."""
    trained = trained_epochs(log)
    for trial in history.trials.values():
        again = trained[_parameter(trial)] - trial.last_epoch
        assert 0 <= again <= kills, f"{trial.id}: {again} epochs trained again after {kills} kills"


def assert_sound(output: Path, history: History) -> None:
    """What is derived from the journal says what the journal says."""
    assert json.loads((output / "tiny" / "summary.json").read_text()) == json.loads(json.dumps(summarise(history)))


def assert_winner(output: Path, history: History) -> None:
    """The winner is that of an undisturbed search, which follows from the curve of the fake training."""
    finished = [trial for trial in history.trials.values() if trial.state is TrialState.FINISHED]
    for trial in finished:
        assert {epoch: metrics["val/rsum"] for epoch, metrics in trial.epochs.items()} == {
            epoch: curve(_parameter(trial), epoch) for epoch in range(1, trial.last_epoch + 1)
        }
    best = max(finished, key=lambda trial: curve(_parameter(trial), trial.last_epoch))
    winner = json.loads((output / "tiny" / "summary.json").read_text())["winners"]["pets"]
    assert (winner["trial"], winner["parameters"]["temperature"]) == (best.id, _parameter(best))
    assert winner["test"] == {"rsum": curve(_parameter(best), best.last_epoch) - 1}


def assert_nothing_left(output: Path, *, strays: bool) -> None:
    """No actor, no lock, no half-written checkpoint, one checkpoint a trial that has any."""
    wait_until(lambda: not live_actors(), "all actors end")
    assert_tidy(output, strays=strays)


def assert_tidy(output: Path, *, strays: bool = False) -> None:
    """No lock, no half-written checkpoint, one checkpoint a trial that has any."""
    folder = output / "tiny"
    assert (folder / "lock").read_text() == ""
    kept = Counter(path.parent.name for path in (folder / "trials").glob("*/epoch_*"))
    assert set(kept.values()) <= {1}, kept
    assert strays or [path.name for path in (folder / "trials").glob("*/.*")] == []
    assert [path.name for path in folder.glob(".*")] == []


def _parameter(trial: Trial) -> float:
    return float(trial.params["temperature"])


OTHERS = ("IDLE", "Agent")
"""What Ray calls its processes that run nobody's actor."""


def live_actors() -> list[psutil.Process]:
    """Return the actors that this process and what it started have running."""
    family = psutil.Process().children(recursive=True)
    return [child for child in family if is_actor(child)]


def is_actor(process: psutil.Process) -> bool:
    return "ray::" in _title(process) and not any(name in _title(process) for name in OTHERS)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""
