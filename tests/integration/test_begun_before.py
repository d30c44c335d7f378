"""A search that an older version began, and that was killed, resumes in this version to the same winner."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.commands import run_command

FIXTURE = Path(__file__).parent.parent / "fixtures" / "begun_search"
UNDISTURBED = json.loads((FIXTURE / "undisturbed.json").read_text())


@pytest.mark.proof
def test_a_search_of_version_0_1_0_resumes_to_the_winner_of_the_undisturbed_search(
    trials_run: None, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(output.parent / "cache"))
    shutil.copytree(FIXTURE / "begun", output / "begun")
    before = (output / "begun" / "journal.jsonl").read_bytes()
    places = ["--data-root", str(FIXTURE / "data"), "--output", str(output)]
    assert run_command(["search", str(FIXTURE / "begun.yaml"), *places]) == 0
    summary = json.loads((output / "begun" / "summary.json").read_text())
    winner = summary["winners"]["tiny"]
    assert (winner["trial"], winner["params"]) == (UNDISTURBED["trial"], UNDISTURBED["params"])
    # Other processors round otherwise, and one rank of 18 images is worth several points of rsum.
    assert winner["val"]["rsum"] == pytest.approx(UNDISTURBED["val_rsum"], abs=20)
    assert {trial["trial"]: trial["state"] for trial in summary["trials"]} == UNDISTURBED["trials"]
    assert (output / "begun" / "journal.jsonl").read_bytes().startswith(before)
