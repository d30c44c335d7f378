"""Fused searches on Ray: ordinary trials to everybody, whose engine may die."""

import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from orchestrator.history import History
from orchestrator.journal import read_journal
from orchestrator.search import run_search
from orchestrator.tracking import default_uri
from orchestrator.workload import Training
from tests.faults.invariants import assert_ended_once, assert_tracked_once
from tests.orchestrator import fake_workload
from tests.orchestrator.experiments import make_experiment
from tests.orchestrator.fake_workload import FakeWorkload
from tests.precomputed_folder import write_precomputed

pytestmark = pytest.mark.slow

TEMPERATURES = [0.05, 0.1, 0.3, 0.45, 0.006, 0.02]


def search(output: Path, workload: Any, fuse: int | str, **changes: Any) -> dict[str, tuple[str, int, float]]:
    """Run a search; return each trial's state, epochs and best value."""
    ray.cloudpickle.register_pickle_by_value(fake_workload)
    values = {"sampler": "grid", "trials": 100, "space": {"nt_xent": {"temperature": {"values": TEMPERATURES}}}}
    resources = {"cpus": 1, "gpus": 0, "fuse": fuse}
    rest = {"losses": ["nt_xent"], "search": values, "scheduler": {"name": "none"}, **changes}
    result = run_search(make_experiment(resources=resources, **rest), workload, output, quiet=True)
    assert result.tracking_problem is None
    records = read_journal(output / "tiny" / "journal.jsonl")
    history = History.of(records)
    assert_ended_once(records, history)
    assert_tracked_once(default_uri(output), history)
    return {row["trial"]: (row["state"], row["epochs"], row["best"].get("rsum")) for row in result.summary["trials"]}


def test_fused_trials_end_as_others_do(
    ray_session: None, output: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workload = FakeWorkload(diverges_above=0.4)
    fused = search(output, workload, 3)
    assert fused == search(tmp_path_factory.mktemp("alone"), workload, 1)
    assert sorted(state for state, _, _ in fused.values()) == ["diverged", *["finished"] * 5]


def engines() -> set[int]:
    """Return the processes of all engines."""
    found = psutil.process_iter(["cmdline"])
    return {each.pid for each in found if any(part.startswith("ray::Engine") for part in each.info["cmdline"] or [])}


def test_a_dead_engine_costs_its_trials_an_epoch(ray_session: None, output: Path) -> None:
    killed: list[int] = []
    before = engines()

    def kill() -> None:
        while not killed:
            journal = output / "tiny" / "journal.jsonl"
            has_begun = journal.exists() and b'"kind":"epoch"' in journal.read_bytes().replace(b" ", b"")
            for pid in engines() - before if has_begun else ():
                psutil.Process(pid).kill()
                killed.append(pid)
            time.sleep(0.1)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    fused = search(output, FakeWorkload(seconds=0.2), 6)
    assert killed
    assert {state for state, _, _ in fused.values()} == {"finished"}
    retried = [
        record for record in read_journal(output / "tiny" / "journal.jsonl") if record["kind"] == "trial_retried"
    ]
    assert retried


def test_how_many_are_fused_is_measured_once(ray_session: None, output: Path) -> None:
    search(output, FakeWorkload(), "auto")
    records = read_journal(output / "tiny" / "journal.jsonl")
    (measured,) = [record for record in records if record["kind"] == "fusion_measured"]
    assert measured["trials"] == 4
    assert measured["epochs_per_hour"] == {"1": 10.0, "4": 30.0}


def test_real_trainings_learn_fused_what_they_learn_alone(
    ray_session: None, output: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data_root = tmp_path_factory.mktemp("data")
    write_precomputed(data_root / "pets", images=60)
    training = {"epochs": 3, "batch_size": 16, "embedding_size": 16, "word_size": 8, "learning_rate": 5e-3}
    workload = Training(str(data_root), device="cpu")
    changes = {"models": ["wsabie", "vsepp"], "losses": ["triplet"], "training": training}
    changes["search"] = {"sampler": "random", "trials": 3, "seed": 1}
    fused = search(output, workload, 3, **changes)
    alone = search(tmp_path_factory.mktemp("alone"), workload, 1, **changes)
    assert fused.keys() == alone.keys() and len(fused) == 6
    for trial, (state, epochs, best) in fused.items():
        assert (state, epochs) == ("finished", 3)
        # One rank that rounding turned is 100 / 30 points of one of the six recalls.
        assert best == pytest.approx(alone[trial][2], abs=10)
