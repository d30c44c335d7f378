"""A search that an older version began, and that was killed, goes on in this version to the same winner."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURE = Path(__file__).parent.parent / "fixtures" / "begun_search"
UNDISTURBED = json.loads((FIXTURE / "undisturbed.json").read_text())


@pytest.mark.slow
def test_a_search_of_version_0_1_0_goes_on_to_the_winner_of_the_undisturbed_search(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE / "begun", tmp_path / "runs" / "begun")
    before = (tmp_path / "runs" / "begun" / "journal.jsonl").read_bytes()
    command = [
        "search",
        str(FIXTURE / "begun.yaml"),
        "--data-root",
        str(FIXTURE / "data"),
        "--output",
        str(tmp_path / "runs"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", "from orchestrator.cli import main; main()", *command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "runs" / "begun" / "summary.json").read_text())
    winner = summary["winners"]["tiny"]
    assert (winner["trial"], winner["params"]) == (UNDISTURBED["trial"], UNDISTURBED["params"])
    # Other processors round otherwise, and one rank of 18 images is worth several points of rsum.
    assert winner["val"]["rsum"] == pytest.approx(UNDISTURBED["val_rsum"], abs=20)
    assert {trial["trial"]: trial["state"] for trial in summary["trials"]} == UNDISTURBED["trials"]
    assert (tmp_path / "runs" / "begun" / "journal.jsonl").read_bytes().startswith(before)
