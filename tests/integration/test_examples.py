"""The scripts of docs/examples.md run one after the other, as they are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plugins import EXAMPLES

SCRIPTS = ["own_loss.py", "search_and_verdict.py", "read_results.py"]
PARAMETERS = '# %% tags=["parameters"]\n'
"""The cell whose numbers papermill replaces."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples to work in, where `orchestrator` is on the PATH as in an activated environment."""
    copy = shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(copy)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("ORCHESTRATOR_DATA_ROOT", raising=False)
    return copy


def run_as_users_do(script: Path) -> str:
    done = subprocess.run([sys.executable, script.name], cwd=script.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proof
def test_the_scripts_run_as_they_are_in_their_order(folder: Path) -> None:
    printed = [run_as_users_do(folder / script) for script in SCRIPTS]
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
