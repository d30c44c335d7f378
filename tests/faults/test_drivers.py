"""Drivers that are killed, at random moments and at chosen ones, or told to stop: the same command resumes.

Each search is killed several times before it may end. CI kills a few times, at random moments that differ from commit
to commit; ``test_every_record.py`` proves there, without processes, what holds at every record. The proofs marked
``proof`` kill more often, and ``FAULT_SEEDS=5`` in the environment repeats these as often.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from orchestrator.journal.history import History
from orchestrator.journal.lock import find_processes, read_lock
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.searches.search import run_search
from orchestrator.tracking.address import default_uri
from tests.faults.driver import MOMENTS, Death
from tests.faults.invariants import assert_kept, assert_recorded_once, is_actor, live_actors
from tests.faults.searches import PLACES, Searches, SearchesHere, grid, tiny
from tests.faults.troubled_workload import Trouble
from tests.support.fake_workload import FakeWorkload
from tests.support.in_process import without_ray
from tests.support.waiting import wait_until

SEEDS = range(int(os.environ.get("FAULT_SEEDS", "1")))


def commit_seed() -> int:
    """Return ``FAULT_SEED`` of the environment, or a seed that each commit has of its own; 0 outside a repository."""
    command = ["git", "rev-parse", "HEAD"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(os.environ.get("FAULT_SEED") or int(found.stdout.strip()[:8] or "0", 16))


@pytest.mark.proof
@pytest.mark.parametrize(
    ("seed", "kills"),
    [pytest.param(None, 3, id="of this commit"), *(pytest.param(seed, 5, id=f"seed {seed}") for seed in SEEDS)],
)
def test_killed_at_random_moments(searches: Searches, seed: int | None, kills: int) -> None:
    chosen = commit_seed() if seed is None else seed
    print(f"FAULT_SEED={chosen} kills at these moments again")
    chance = random.Random(chosen)
    experiment = grid([0.3, 0.05, 0.2, 0.02, 0.4, 0.006])
    # The last ends after the last kill, so that there is always a search to be killed.
    workload = searches.workload(seconds=0.1, troubles={0.006: Trouble("wait", epoch=5)})
    snapshots: list[History] = []
    for _ in range(kills):
        process = searches.start(experiment, workload)
        searches.wait_for_more(chance.randrange(9), process, enough=waits_for_the_kills)
        # Any moment between two records: no condition stands for one.
        time.sleep(chance.uniform(0, 0.4))
        process.kill()
        process.join()
        snapshots.append(searches.history())
    workload.go.touch()
    searches.conclude(experiment, workload, *snapshots, kills=kills)


def waits_for_the_kills(history: History) -> bool:
    """Whether all have ended but the last, which is in its last epoch."""
    return len(history.trials) == 6 and [trial.last_epoch for trial in history.running()] == [4]


KINDS = (
    "experiment_started",
    "trial_created",
    "trial_started",
    "epoch",
    "concurrency_lowered",
    "trial_retried",
    "trial_ended",
    "test_opened",
    "test_evaluated",
    "experiment_ended",
)
"""Kinds of records at which a driver is killed; ``test_every_record.py`` crashes a search at all of them."""


@pytest.mark.proof
@pytest.mark.parametrize("shift", SEEDS)
def test_killed_at_a_record(searches: Searches, shift: int) -> None:
    experiment = grid([0.02, 0.4, 0.3, 0.05, 0.2, 0.45])
    # The second time that memory is short there is a retry, but nothing left to lower.
    troubles = {0.4: Trouble("death", times=2), 0.3: Trouble("memory", times=2)}
    workload = searches.workload(troubles=troubles, diverges_above=0.44)
    snapshots: list[History] = []
    for number, kind in enumerate(KINDS):
        # Where the actor whose memory is short starts late, the trial that diverges has ended before.
        if kind == "trial_ended" and TrialState.DIVERGED in {trial.state for trial in snapshots[-1].trials.values()}:
            continue
        searches.die(experiment, workload, Death(kind, MOMENTS[(number + shift) % len(MOMENTS)]))
        snapshots.append(searches.history())
    searches.conclude(experiment, workload, *snapshots, kills=len(snapshots))
    ended = {trial.params["temperature"]: trial.state for trial in searches.history().trials.values()}
    assert ended.pop(0.45) is TrialState.DIVERGED
    assert set(ended.values()) == {TrialState.FINISHED}


@pytest.mark.proof
def test_stopped_in_every_polite_way(searches: Searches) -> None:
    workload = searches.workload(otherwise=Trouble("wait"))
    snapshots: list[History] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        process = searches.start(tiny(), workload)
        searches.wait_until_held(process)
        assert live_actors()
        searches.finish(tiny(), workload, code=3)
        assert f"already running: process {process.pid}" in searches.errors()
        assert process.pid is not None
        os.kill(process.pid, number)
        workload.go.touch()
        searches.join(process, 130)
        workload.go.unlink()
        snapshots.append(searches.history())
        assert snapshots[-1].outcome == "interrupted" and snapshots[-1].running()
        runs = MlflowClient(tracking_uri=default_uri(searches.output)).search_runs(["1", "2"])
        assert {run.info.status for run in runs} <= {"KILLED", "FINISHED"}
    assert searches.errors().count("resume with: orchestrator resume tiny") == 2
    assert "Traceback" not in searches.errors()
    workload.go.touch()
    searches.conclude(tiny(), workload, *snapshots, kills=2)


@pytest.mark.proof
@pytest.mark.parametrize("started_by_ray", ["gcs_server", "raylet", "ray::"])
def test_told_to_stop_while_ray_starts_a_search_says_how_to_resume(searches: Searches, started_by_ray: str) -> None:
    process = searches.start(tiny(), searches.workload(otherwise=Trouble("wait")), own_ray=True)
    driver = psutil.Process(process.pid)
    searches.wait_for(lambda history: any(started_by_ray in line for line in commands_below(driver)), process)
    driver.terminate()
    children = driver.children(recursive=True)
    searches.join(process, 130)
    # Two agents of Ray look only now and then whether their raylet has died.
    assert psutil.wait_procs(children, timeout=240)[1] == []
    assert "resume with: orchestrator resume tiny" in searches.errors()
    assert "Traceback" not in searches.errors()


def commands_below(process: psutil.Process) -> Iterator[str]:
    """Yield the command lines of the processes that a process has started."""
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            yield " ".join(child.cmdline())


@pytest.mark.proof
def test_a_race_that_was_killed_resumes_to_the_same_end(searches: Searches, tmp_path: Path) -> None:
    experiment = grid([0.1, 0.05, 0.4], confirm={"top": 2, "trainings": 12})
    with without_ray(PLACES):
        undisturbed = run_search(experiment, FakeWorkload(), tmp_path / "undisturbed", quiet=True).summary
    workload = searches.workload(seconds=0.05)
    searches.crash(experiment, workload, lambda history: any(one.has_ended for one in history.stage(Stage.CONFIRM)))
    killed = searches.history()
    searches.finish(experiment, workload)
    summary = json.loads((searches.output / "tiny" / "summary.json").read_text())
    assert summary["races"] == undisturbed["races"]
    assert_recorded_once(searches.output)
    assert_kept(killed, searches.history())


def test_a_search_whose_budget_is_spent_resumes_with_another(any_searches: SearchesHere) -> None:
    workload = any_searches.workload(otherwise=Trouble("wait"))
    snapshots: list[History] = []
    any_searches.crash(tiny(), workload, lambda history: any(trial.epochs for trial in history.running()))
    for budget, by in (({"gpu_hours": 1e-9, "hours": 1e-9}, "hours"), ({"target": 1.0}, "target")):
        any_searches.finish(tiny(budget=budget), workload)
        snapshots.append(any_searches.history())
        assert snapshots[-1].ended_by == by
        assert snapshots[-1].running() or len(snapshots[-1].trials) < 6
    any_searches.conclude(tiny(), workload, *snapshots, kills=3)


# Fused, the engines and the engine directory are actors of the same Ray.
@pytest.mark.proof
@pytest.mark.parametrize("fuse", [pytest.param(1, id="alone"), pytest.param(3, id="fused")])
def test_what_a_killed_driver_started_goes_with_it(searches: Searches, fuse: int) -> None:
    workload = searches.workload(otherwise=Trouble("wait"))
    experiment = tiny(resources={"cpus": 1, "gpus": 0, "fuse": fuse})
    process = searches.start(experiment, workload, own_ray=True)
    searches.wait_for(lambda history: any(trial.epochs for trial in history.running()), process)
    children = psutil.Process(process.pid).children(recursive=True)
    actors = [" ".join(child.cmdline()).strip() for child in children if is_actor(child)]
    assert actors
    for name in ("FusedEngine", "EngineDirectory") if fuse > 1 else ():
        assert any(f"ray::{name}" in actor for actor in actors), actors
    process.kill()
    workload.go.touch()
    wait_until(lambda: not any(map(is_actor, children)), "the actors end")
    killed = searches.history()
    holder = read_lock(searches.output / "tiny")
    assert holder is not None and holder.scratch is not None
    scratch = Path(holder.scratch)
    assert scratch.is_dir()
    searches.conclude(experiment, workload, killed, kills=1)
    assert not scratch.exists()
    assert find_processes(scratch) == []


@pytest.mark.proof
def test_frozen_actors_of_a_killed_driver_do_no_harm_when_they_wake(searches: Searches) -> None:
    workload = searches.workload(seconds=0.3, otherwise=Trouble("wait", epoch=3))
    process = searches.start(tiny(), workload, own_ray=True)
    searches.wait_for(lambda history: any(trial.last_epoch >= 2 for trial in history.running()), process)
    children = psutil.Process(process.pid).children(recursive=True)
    frozen = [child for child in children if child in live_actors()]
    assert frozen
    for actor in frozen:
        actor.suspend()
    process.kill()
    process.join()
    workload.go.touch()
    killed = searches.history()
    again = searches.start(tiny(), workload)
    searches.wait_for_more(4, again)
    for actor in frozen:
        if actor.is_running():
            os.kill(actor.pid, signal.SIGCONT)
    searches.join(again)
    wait_until(lambda: not any(actor.is_running() for actor in frozen), "the actors that woke end")
    searches.judge(killed, kills=1, strays=True)
