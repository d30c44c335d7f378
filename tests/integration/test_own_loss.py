"""The example of docs/plugins.md: from a loss in a file to a confirmed verdict, as its script runs it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.commands import check, in_shell
from tests.support.plugins import EXAMPLES

EXAMPLE = EXAMPLES / "own-loss"


def test_the_example_is_short_and_each_of_its_commands_is_taken() -> None:
    files = [path for path in EXAMPLE.iterdir() if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) < 40
    commands = list(in_shell((EXAMPLE / "run.sh").read_text()))
    assert [command[1] for command in commands] == ["check-plugin", "data", "search", "summarise"]
    for command in commands:
        check(command)


def test_the_page_shows_the_example() -> None:
    page = (EXAMPLES.parent / "plugins.md").read_text()
    code = (EXAMPLE / "my_losses.py").read_text().partition('"""\n')[2].strip()
    assert code in page


@pytest.mark.proof
def test_the_script_ends_in_a_confirmed_verdict(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "own-loss")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "run.sh"], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "runs" / "own-loss" / "summary.json").read_text())
    (verdict,) = summary["verdicts"]
    assert verdict["dataset"] == "scenes" and summary["winners"]["scenes"]["confirmed"]
    assert {trial["loss"] for trial in summary["trials"]} == {"pair_sigmoid", "nt_xent"}
    assert "Contributing pairs of losses without weights of their own" in done.stdout
