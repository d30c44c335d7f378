"""Searches, whole, extended, interrupted and killed: the invariants of the design hold."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from mlflow import MlflowClient

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.searches.search import SearchResult, run_search
from orchestrator.tracking.address import default_uri
from tests.faults.invariants import assert_ended_once, assert_tracked_once
from tests.integration.search_process import command
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload, curve
from trainables.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
TEMPERATURES = [0.05, 0.1, 0.3, 0.45, 0.006, 0.02]


def grid(values: list[float], **changes: Any) -> Experiment:
    """Return one study that tries given temperatures in their order."""
    search = {"sampler": "grid", "trials": 100, "space": {"nt_xent": {"temperature": {"values": values}}}}
    return make_experiment(losses=["nt_xent"], search=search, **changes)


def search(experiment: Experiment, output: Path, workload: FakeWorkload) -> SearchResult:
    return run_search(experiment, workload, output, quiet=True)


def read(output: Path) -> History:
    return History.of(read_journal(output / "tiny" / "journal.jsonl"))


def assert_invariants(output: Path) -> None:
    """One terminal state a trial, one run a trial, each epoch and metric step once, and all three records agree."""
    records = read_journal(output / "tiny" / "journal.jsonl")
    history = History.of(records)
    assert_ended_once(records, history)
    assert_tracked_once(default_uri(output), history)


def test_worse_trials_are_stopped_early_by_those_before_them(trials_run: None, output: Path) -> None:
    one_by_one = {"cpus": 1, "gpus": 0, "max_concurrent": 1}
    result = search(grid([0.05, 0.1, 0.3], resources=one_by_one), output, FakeWorkload())
    rows = [(row["params"]["temperature"], row["state"], row["epochs"]) for row in result.summary["trials"]]
    assert rows == [(0.05, "finished", 6), (0.1, "stopped_early", 1), (0.3, "stopped_early", 1)]
    assert result.tracking_problem is None
    assert_invariants(output)


def test_trials_that_go_wrong_never_win(trials_run: None, output: Path) -> None:
    experiment = grid(TEMPERATURES, scheduler={"name": "none"})
    workload = FakeWorkload(diverges_above=0.4, fails_below=0.01, stumbles_below=0.04)
    result = search(experiment, output, workload)
    trials = {row["params"]["temperature"]: row for row in result.summary["trials"]}
    states = {temperature: (row["state"], row["epochs"], row["retries"]) for temperature, row in trials.items()}
    assert states == {
        0.05: ("finished", 6, 0),
        0.1: ("finished", 6, 0),
        0.3: ("finished", 6, 0),
        0.45: ("diverged", 1, 0),
        0.006: ("failed", 1, 2),
        0.02: ("finished", 6, 1),
    }
    assert trials[0.45]["error"] == "train/loss is nan in epoch 2, step 17"
    assert trials[0.006]["error"] == "RuntimeError: no luck with 0.006"
    winner = result.summary["winners"]["pets"]
    assert (winner["params"], winner["best_epoch"]) == ({"temperature": 0.05}, 6)
    assert winner["val"]["rsum"] == curve(0.05, 6)
    assert winner["test"] == {"rsum": curve(0.05, 6) - 1}
    assert json.loads((output / "tiny" / "summary.json").read_text()) == result.summary
    assert yaml.safe_load((output / "tiny" / "experiment.yaml").read_text()) == experiment.to_dict()
    assert_invariants(output)
    kept = {path.parent.name: path.name for path in (output / "tiny" / "trials").glob("*/*")}
    assert len(list((output / "tiny" / "trials").glob("*/*"))) == len(kept) == 6, "one checkpoint an ended trial"
    assert (output / "tiny").stat().st_mode & 0o077 == 0

    before = (output / "tiny" / "journal.jsonl").read_text().splitlines()
    again = search(experiment, output, workload)
    after = (output / "tiny" / "journal.jsonl").read_text().splitlines()
    assert again.summary == result.summary
    assert [json.loads(line)["kind"] for line in after[len(before) :]] == ["experiment_started", "experiment_ended"]
    with pytest.raises(ConfigError, match=r"training\.epochs \(\d+ -> 7\); give the experiment another name"):
        search(grid(TEMPERATURES, scheduler={"name": "none"}, training={"epochs": 7}), output, workload)
    with pytest.raises(ConfigError, match="the data of pets:global have changed"):
        search(experiment, output, FakeWorkload(digest="d2"))


def test_a_search_with_more_trials_resumes_where_it_was(trials_run: None, output: Path) -> None:
    short, long = ({"sampler": "tpe", "trials": trials, "seed": 3} for trials in (2, 4))
    limits = {"cpus": 1, "gpus": 0, "max_concurrent": 1}
    search(make_experiment(search=short, resources=limits), output, FakeWorkload())
    result = search(make_experiment(search=long, resources=limits), output, FakeWorkload())
    assert len(result.summary["trials"]) == 8
    assert_invariants(output)


@contextmanager
def process(output: Path, experiment: Experiment, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Run a search in a process of its own; it and its children are gone in the end."""
    file = output.parent / "tiny.yaml"
    file.write_text(yaml.safe_dump(experiment.to_dict()))
    environment, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    program = command(output, file, seconds)
    with subprocess.Popen(program, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as started:
        children: list[psutil.Process] = []
        try:
            started.children = lambda: children.extend(psutil.Process(started.pid).children(True))  # type: ignore[attr-defined]
            yield started
        finally:
            if started.poll() is None:
                children += psutil.Process(started.pid).children(recursive=True)
                started.kill()
            _, alive = psutil.wait_procs(children, timeout=120)
            for child in alive:
                child.kill()


def wait_for(condition: Callable[[], bool], started: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert started.poll() is None, started.communicate()[1]
        assert time.monotonic() < deadline, "the search does not get on"
        time.sleep(0.05)


def progress(output: Path) -> History:
    journal = output / "tiny" / "journal.jsonl"
    return read(output) if journal.exists() else History()


def ended(history: History) -> int:
    return len(history.trials) - len(history.running())


@pytest.mark.proof
def test_told_to_stop_a_search_ends_cleanly_and_can_be_resumed(ray_session: None, output: Path) -> None:
    experiment = grid([0.3, 0.05, 0.2], scheduler={"name": "none"})
    (output.parent / "hold").touch()
    with process(output, experiment, 0.5) as started:
        wait_for(lambda: any(trial.last_epoch >= 2 for trial in progress(output).running()), started)
        started.send_signal(signal.SIGTERM)
        _, errors = started.communicate(timeout=240)
    assert started.returncode == 130
    assert "resume with: orchestrator resume tiny" in errors
    assert "Traceback" not in errors
    interrupted = read(output)
    assert interrupted.outcome == "interrupted"
    assert interrupted.running()
    runs = MlflowClient(tracking_uri=default_uri(output)).search_runs(["1", "2"])
    assert {run.info.status for run in runs} <= {"KILLED", "FINISHED"}
    search(experiment, output, FakeWorkload())
    assert_invariants(output)


@pytest.mark.proof
@pytest.mark.parametrize("started_by_ray", ["gcs_server", "raylet", "ray::"])
def test_told_to_stop_while_ray_starts_a_search_says_how_to_resume(output: Path, started_by_ray: str) -> None:
    (output.parent / "hold").touch()
    with process(output, grid([0.3, 0.05], scheduler={"name": "none"}), 0.5) as started:
        wait_for(lambda: any(started_by_ray in " ".join(cmdline) for cmdline in commands_below(started)), started)
        started.send_signal(signal.SIGTERM)
        children = psutil.Process(started.pid).children(recursive=True)
        _, errors = started.communicate(timeout=240)
        # Two agents of Ray look only now and then whether their raylet has died.
        _, alive = psutil.wait_procs(children, timeout=240)
    assert (started.returncode, alive) == (130, [])
    assert "resume with: orchestrator resume tiny" in errors
    assert "Traceback" not in errors


def commands_below(started: subprocess.Popen[str]) -> Iterator[list[str]]:
    """Yield the command lines of the processes that a process has started."""
    for child in psutil.Process(started.pid).children(recursive=True):
        with suppress(psutil.Error):
            yield child.cmdline()
