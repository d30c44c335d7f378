"""Fused searches on Ray: ordinary trials to everybody. What may go wrong with them is in ``tests/faults``."""

import math
from pathlib import Path
from typing import Any

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import FusionMeasured
from orchestrator.searches.search import run_search
from orchestrator.workload.training import TrainablesWorkload
from tests.faults.invariants import assert_nothing_left, assert_recorded_once
from tests.faults.searches import grid
from tests.support.fake_workload import FakeWorkload, curve
from tests.support.in_process import without_ray
from tests.support.precomputed_folder import write_precomputed

TEMPERATURES = [0.05, 0.1, 0.3, 0.45, 0.006, 0.02]


def run(output: Path, experiment: Experiment, workload: Any) -> dict[str, Any]:
    """Run a search, see that nothing of it is left, and return its summary."""
    result = run_search(experiment, workload, output, quiet=True)
    assert result.tracking_problem is None
    assert_recorded_once(output)
    assert_nothing_left(output, strays=False)
    return dict(result.summary)


def search(
    output: Path, workload: Any, fuse: int | str, values: list[float] = TEMPERATURES, **changes: Any
) -> dict[str, tuple[str, int, float]]:
    """Run a search; return each trial's state, epochs and best value."""
    experiment = grid(values, resources={"cpus": 1, "gpus": 0, "fuse": fuse}, **changes)
    summary = run(output, experiment, workload)
    return {row["trial"]: (row["state"], row["epochs"], row["best"]["val/rsum"]) for row in summary["trials"]}


@pytest.mark.proof
def test_fused_trials_end_as_others_do(
    ray_session: None, output: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    workload = FakeWorkload(diverges_above=0.4)
    fused = search(output, workload, 3)
    with without_ray(tracked=True):
        assert fused == search(tmp_path_factory.mktemp("alone"), workload, 1)
    assert sorted(state for state, _, _ in fused.values()) == ["diverged", *["finished"] * 5]


@pytest.mark.proof
def test_pruned_trials_leave_their_places_to_others(ray_session: None, output: Path) -> None:
    values = [round(0.02 * 1.25**number, 4) for number in range(14)]
    asha = {"name": "asha", "grace_epochs": 1, "reduction_factor": 2}
    trials = search(output, FakeWorkload(), 3, values, scheduler=asha)
    assert len(trials) == len(values)
    assert {state for state, _, _ in trials.values()} == {"finished", "stopped_early"}
    for number, trial in enumerate(sorted(trials)):
        state, epochs, best = trials[trial]
        assert best == curve(values[number], epochs)
        assert (state == "finished") == (epochs == 5)
    # Which others are pruned depends on who came first; the best is best at every rung.
    best = min(range(len(values)), key=lambda number: abs(math.log(values[number] / 0.05)))
    assert max(trials, key=lambda trial: trials[trial][2]) == f"pets-vsepp-nt_xent-{best:04d}"


def test_how_many_are_fused_is_measured_once(trials_run: None, output: Path) -> None:
    search(output, FakeWorkload(), "auto")
    records = read_journal(output / "tiny" / "journal.jsonl")
    (measured,) = [record for record in records if isinstance(record, FusionMeasured)]
    assert measured.trials == 4
    assert measured.epochs_per_hour == {"1": 10.0, "4": 30.0}


@pytest.mark.proof
def test_real_trainings_learn_fused_what_they_learn_alone(
    ray_session: None, output: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data_root = tmp_path_factory.mktemp("data")
    write_precomputed(data_root / "pets", images=60)
    training = {"epochs": 3, "batch_size": 16, "embedding_size": 16, "word_size": 8, "learning_rate": 5e-3}
    workload = TrainablesWorkload(str(data_root), device="cpu")
    changes = {"models": ["wsabie", "vsepp"], "losses": ["triplet"], "training": training}
    changes["search"] = {"sampler": "random", "trials": 3, "seed": 1}
    fused = search(output, workload, 3, **changes)
    with without_ray(tracked=True):
        alone = search(tmp_path_factory.mktemp("alone"), workload, 1, **changes)
    assert fused.keys() == alone.keys() and len(fused) == 6
    for trial, (state, epochs, best) in fused.items():
        assert (state, epochs) == ("finished", 3)
        # One rank that rounding turned is 100 / 30 points of one of the six recalls.
        assert best == pytest.approx(alone[trial][2], abs=10)
