"""The examples of docs/examples.md and docs/plugins.md run as they are."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.commands import check, in_shell
from tests.support.plugins import EXAMPLES

SCRIPTS = ["own_loss.py", "search_and_verdict.py", "read_results.py"]
PARAMETERS = '# %% tags=["parameters"]\n'
"""The cell whose numbers papermill replaces."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples to work in, where `orchestrator` is on the PATH as in an activated environment."""
    copy = shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("ORCHESTRATOR_DATA_ROOT", raising=False)
    return copy


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proof
def test_the_scripts_run_as_they_are_in_their_order(folder: Path) -> None:
    printed = [run(folder, sys.executable, script) for script in SCRIPTS]
    assert "nt_xent:" in printed[0]
    assert "better" in printed[1] or "tie" in printed[1]
    assert "gradient_negatives" in printed[2]
    assert "confirmed" in printed[2] and "not confirmed" not in printed[2]
    assert (folder / "curves.html").stat().st_size < 200_000


def test_the_page_names_every_script_and_all_are_in_cells() -> None:
    page = (EXAMPLES.parent / "examples.md").read_text()
    assert sorted(SCRIPTS) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    for script in SCRIPTS:
        assert f"](examples/{script})" in page
        text = (EXAMPLES / script).read_text()
        assert text.startswith("# %% [markdown]\n# # ") and (PARAMETERS in text or script == SCRIPTS[2])


def test_the_example_of_a_loss_is_short_its_commands_are_taken_and_a_page_shows_it() -> None:
    files = [path for path in (EXAMPLES / "own-loss").iterdir() if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) < 40
    commands = list(in_shell((EXAMPLES / "own-loss" / "run.sh").read_text()))
    assert [command[1] for command in commands] == ["check-plugin", "data", "search", "summarise"]
    for command in commands:
        check(command)
    code = (EXAMPLES / "own-loss" / "my_losses.py").read_text().partition('"""\n')[2].strip()
    assert code in (EXAMPLES.parent / "plugins.md").read_text()


@pytest.mark.proof
def test_the_example_of_a_loss_ends_in_a_confirmed_verdict(folder: Path) -> None:
    printed = run(folder / "own-loss", "sh", "run.sh")
    summary = json.loads((folder / "own-loss" / "runs" / "own-loss" / "summary.json").read_text())
    (verdict,) = summary["verdicts"]
    assert verdict["dataset"] == "scenes" and summary["winners"]["scenes"]["confirmed"]
    assert {trial["loss"] for trial in summary["trials"]} == {"pair_sigmoid", "nt_xent"}
    assert "Contributing pairs of losses without weights of their own" in printed


def test_the_example_of_a_gate_has_a_script_of_twenty_lines_and_commands_that_are_taken() -> None:
    script = (EXAMPLES / "gate" / "train.py").read_text()
    assert len(script.splitlines()) <= 20 and "orchestrator" not in script
    for command in in_shell((EXAMPLES / "gate" / "run.sh").read_text()):
        check(command)


@pytest.mark.proof
def test_the_example_of_a_gate_keeps_discards_and_knows_a_proposal_again(folder: Path) -> None:
    command = ["sh", "run.sh"]
    done = subprocess.run(command, cwd=folder / "gate", capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["keep", "discard", "identical"], done.stderr
