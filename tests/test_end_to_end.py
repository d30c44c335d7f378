"""The main promises, as a user meets them, in every run of the tests: the one file of ``make test`` with processes.

A search as ``make search`` runs it, smaller: the real command line, real Ray, MLflow in SQLite. The same search whose
driver is killed with ``kill -9`` and that resumes to the same winner. Its report, drawn in Chromium.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from mlflow import MlflowClient

from orchestrator.tracking.address import default_uri
from tests.faults.invariants import assert_recorded_once
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import load_dataset
from trainables.evaluation import evaluate, load_best

ROOT = Path(__file__).parent.parent
SETTINGS = (
    *("training.epochs=3", "search.trials=2", "scheduler.grace_epochs=1"),
    *("resources.max_concurrent=1", "confirm=null"),
)
"""What makes the search of ``make search`` small; one trial after the other, so that its trials repeat."""

COMMAND = """
import sys
from orchestrator.cli import main
from orchestrator.searches import preparation

# A busy machine may need longer for MLflow's part than a person waits for it.
preparation.TRACKING_SECONDS = 300.0
main(sys.argv[1:])
"""
KILLED = f"""
from tests.faults.driver import Death, die

die(Death("epoch", "torn"))
{COMMAND}
"""
"""The command line in a process that is killed while it writes the record of its first epoch."""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run(folder: Path, *arguments: str, program: str = COMMAND) -> Done:
    """Run a command on the data and the output of a folder."""
    places = {"ORCHESTRATOR_DATA_ROOT": folder.parent / "data", "ORCHESTRATOR_OUTPUT": folder}
    places |= {"XDG_CACHE_HOME": folder.parent / "cache", "PYTHONPATH": ROOT}
    environment = {**os.environ, **{name: str(place) for name, place in places.items()}}
    command = [sys.executable, "-c", program, *arguments]
    # Files, and no pipes: what a killed command has started may hold its ends of a pipe for a while.
    printed = [folder.parent / name for name in ("stdout", "stderr")]
    with printed[0].open("w") as stdout, printed[1].open("w") as stderr:
        code = subprocess.run(command, cwd=folder.parent, env=environment, stdout=stdout, stderr=stderr).returncode
    return Done(code, *(file.read_text() for file in printed))


def search(folder: Path, program: str = COMMAND) -> Done:
    changes = [part for setting in SETTINGS for part in ("--set", setting)]
    return run(folder, "search", "scenes-smoke", *changes, program=program)


def summary_of(folder: Path) -> Any:
    return json.loads((folder / "scenes-smoke" / "summary.json").read_text())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a search that nothing disturbed; the data lie beside it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "runs"
    data = str(folder.parent / "data" / "scenes")
    generated = run(folder, "data", "generate", "scenes", "--images", "200", "--seed", "0", "--out", data)
    assert generated.returncode == 0, generated.stderr
    searched = search(folder)
    assert searched.returncode == 0, searched.stderr
    assert "registered: icr-scenes version 1, the champion" in searched.stdout
    return folder


def test_a_search_from_the_command_line_ends_with_a_tested_winner(
    undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(undisturbed.parent / "cache of the test"))
    summary = summary_of(undisturbed)
    assert {row["state"] for row in summary["trials"]} <= {"finished", "stopped_early"}
    assert len(summary["trials"]) == 4
    winner = summary["winners"]["scenes"]
    finished = [row["best"]["val/rsum"] for row in summary["trials"] if row["state"] == "finished"]
    assert winner["val"]["rsum"] == max(finished)
    checkpoint = next((undisturbed / "scenes-smoke" / "trials" / winner["trial"]).glob("epoch_*"))
    data = load_dataset("scenes", undisturbed.parent / "data")
    model, _ = load_best(checkpoint, data)
    splits = {name: ResidentSplit(split, torch.device("cpu")) for name, split in data.splits.items()}
    rsums = {name: evaluate(model, split)["rsum"] for name, split in splits.items()}
    assert len(set(rsums.values())) == 3, "a split that is taken for another one must be noticed"
    assert (winner["val"]["rsum"], winner["test"]["rsum"]) == pytest.approx((rsums["val"], rsums["test"]))
    assert_recorded_once(undisturbed, "scenes-smoke")
    assert MlflowClient(tracking_uri=default_uri(undisturbed)).get_registered_model("icr-scenes").aliases


def test_a_search_whose_driver_is_killed_resumes_to_the_same_winner(undisturbed: Path) -> None:
    folder = undisturbed.parent / "killed"
    assert search(folder, KILLED).returncode == -signal.SIGKILL
    assert not (folder / "scenes-smoke" / "summary.json").exists()
    resumed = run(folder, "resume", "scenes-smoke")
    assert resumed.returncode == 0, resumed.stderr
    known = ("parameters", "best_epoch", "val", "test")
    winner, expected = (summary_of(output)["winners"]["scenes"] for output in (folder, undisturbed))
    assert {name: winner[name] for name in known} == {name: expected[name] for name in known}
    assert_recorded_once(folder, "scenes-smoke")


def test_the_report_of_the_search_is_drawn_in_a_browser(undisturbed: Path, browser: Any) -> None:
    assert run(undisturbed, "report", "scenes-smoke").returncode == 0
    (path,) = (undisturbed / "scenes-smoke").glob("report*.html")
    page = browser.new_page()
    page.set_default_timeout(300_000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.evaluate("charts.drawAll()")
    assert page.locator("#trials .scatterlayer .point").count() == len(summary_of(undisturbed)["trials"])
    assert complaints == []
    page.close()
