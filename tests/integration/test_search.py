"""Searches, whole and extended: the invariants of the design hold. ``tests/faults`` interrupts and kills them."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.report.experiment_report import report_experiments
from orchestrator.searches.search import SearchResult, run_search
from orchestrator.tracking.address import default_uri
from tests.faults.invariants import assert_recorded_once
from tests.faults.searches import grid
from tests.support.commands import run_command
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload, curve
from trainables.errors import ConfigError

BEGUN = Path(__file__).parent.parent / "fixtures" / "begun_search"
TEMPERATURES = [0.05, 0.1, 0.3, 0.45, 0.006, 0.02]


def search(experiment: Experiment, output: Path, workload: FakeWorkload) -> SearchResult:
    return run_search(experiment, workload, output, quiet=True)


def read(output: Path) -> History:
    return History.of(read_journal(output / "tiny" / "journal.jsonl"))


def test_worse_trials_are_stopped_early_by_those_before_them(trials_run: None, output: Path) -> None:
    asha = {"name": "asha", "grace_epochs": 1, "reduction_factor": 2}
    one_by_one = {"cpus": 1, "gpus": 0, "max_concurrent": 1}
    result = search(grid([0.05, 0.1, 0.3], scheduler=asha, resources=one_by_one), output, FakeWorkload())
    rows = [(row["parameters"]["temperature"], row["state"], row["epochs"]) for row in result.summary["trials"]]
    assert rows == [(0.05, "finished", 5), (0.1, "stopped_early", 1), (0.3, "stopped_early", 1)]
    assert result.tracking_problem is None
    assert_recorded_once(output)


def test_trials_that_go_wrong_never_win(trials_run: None, output: Path) -> None:
    experiment = grid(TEMPERATURES)
    workload = FakeWorkload(diverges_above=0.4, fails_below=0.01, stumbles_below=0.04)
    result = search(experiment, output, workload)
    trials = {row["parameters"]["temperature"]: row for row in result.summary["trials"]}
    states = {temperature: (row["state"], row["epochs"], row["retries"]) for temperature, row in trials.items()}
    assert states == {
        0.05: ("finished", 5, 0),
        0.1: ("finished", 5, 0),
        0.3: ("finished", 5, 0),
        0.45: ("diverged", 1, 0),
        0.006: ("failed", 1, 2),
        0.02: ("finished", 5, 1),
    }
    assert trials[0.45]["error"] == "train/loss is nan in epoch 2, step 17"
    assert trials[0.006]["error"] == "RuntimeError: no luck with 0.006"
    winner = result.summary["winners"]["pets"]
    assert (winner["parameters"], winner["best_epoch"]) == ({"temperature": 0.05}, 5)
    assert winner["val"]["rsum"] == curve(0.05, 5)
    assert winner["test"] == {"rsum": curve(0.05, 5) - 1}
    assert json.loads((output / "tiny" / "summary.json").read_text()) == result.summary
    assert yaml.safe_load((output / "tiny" / "experiment.yaml").read_text()) == experiment.to_dict()
    assert_recorded_once(output)
    kept = {path.parent.name: path.name for path in (output / "tiny" / "trials").glob("*/*")}
    assert len(list((output / "tiny" / "trials").glob("*/*"))) == len(kept) == 6, "one checkpoint an ended trial"
    assert (output / "tiny").stat().st_mode & 0o077 == 0

    before = (output / "tiny" / "journal.jsonl").read_text().splitlines()
    again = search(experiment, output, workload)
    after = (output / "tiny" / "journal.jsonl").read_text().splitlines()
    assert again.summary == result.summary
    assert [json.loads(line)["kind"] for line in after[len(before) :]] == ["experiment_started", "experiment_ended"]
    with pytest.raises(ConfigError, match=r"training\.epochs \(\d+ -> 7\); give the experiment another name"):
        search(grid(TEMPERATURES, training={"epochs": 7}), output, workload)
    with pytest.raises(ConfigError, match="the data of pets:global have changed"):
        search(experiment, output, FakeWorkload(digest="d2"))


def test_a_search_with_more_trials_resumes_where_it_was(trials_run: None, output: Path) -> None:
    short, long = ({"sampler": "tpe", "trials": trials, "seed": 3} for trials in (2, 4))
    limits = {"cpus": 1, "gpus": 0, "max_concurrent": 1}
    search(make_experiment(search=short, resources=limits), output, FakeWorkload())
    result = search(make_experiment(search=long, resources=limits), output, FakeWorkload())
    assert len(result.summary["trials"]) == 8
    assert_recorded_once(output)


def test_a_search_that_chooses_its_loss_is_one_study_from_the_first_trial_to_the_report(
    output: Path, trials_run: None
) -> None:
    experiment = make_experiment(search={"loss": "choose", "sampler": "tpe", "trials": 10})
    result = search(experiment, output, FakeWorkload())
    history = read(output)
    trials = list(history.trials.values())
    assert {trial.study for trial in trials} == {"pets-vsepp-any"}
    assert [trial.config.loss for trial in trials[:2]] == ["nt_xent", "triplet_sh"]
    assert all(f"{trial.config.loss}." in name for trial in trials for name in trial.params if name != "loss")
    winner = result.summary["winners"]["pets"]
    assert history.trials[winner["trial"]].config.loss == winner["loss"]
    # Every trial is a run with its own loss; that of the study says that it is any.
    client = MlflowClient(default_uri(output))
    found = client.get_experiment_by_name("tiny")
    tags = [run.data.tags for run in client.search_runs([found.experiment_id])]
    of_trials = {tag["trial"]: tag["loss"] for tag in tags if tag["kind"] == "trial"}
    assert of_trials == {trial.id: trial.config.loss for trial in trials}
    assert [tag["loss"] for tag in tags if tag["kind"] == "study"] == ["any"]
    assert_recorded_once(output)
    page = report_experiments([output / "tiny"], output, data_root=None, device="cpu")[0].read_text()
    assert "nt_xent.temperature" in page and "triplet_sh.margin" in page


@pytest.mark.proof
def test_a_search_of_version_0_2_resumes_to_the_winner_of_the_undisturbed_search(
    trials_run: None, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = json.loads((BEGUN / "undisturbed.json").read_text())
    monkeypatch.setenv("XDG_CACHE_HOME", str(output.parent / "cache"))
    shutil.copytree(BEGUN / "begun", output / "begun")
    before = (output / "begun" / "journal.jsonl").read_bytes()
    places = ["--data-root", str(BEGUN / "data"), "--output", str(output)]
    assert run_command(["search", str(BEGUN / "begun.yaml"), *places]) == 0
    summary = json.loads((output / "begun" / "summary.json").read_text())
    winner = summary["winners"]["tiny"]
    assert (winner["trial"], winner["parameters"]) == (undisturbed["trial"], undisturbed["parameters"])
    # Other processors round otherwise, and one rank of 18 images is worth several points of rsum.
    assert winner["val"]["rsum"] == pytest.approx(undisturbed["val_rsum"], abs=20)
    assert {trial["trial"]: trial["state"] for trial in summary["trials"]} == undisturbed["trials"]
    assert (output / "begun" / "journal.jsonl").read_bytes().startswith(before)
