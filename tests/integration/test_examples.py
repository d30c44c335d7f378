"""The scripts of docs/examples.md run one after the other, as small as they can be; on Ray in the sizes they have."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.in_process import without_ray
from tests.support.plugins import EXAMPLES, plugins_gone_afterwards

SCRIPTS = ["own_loss.py", "search_and_verdict.py", "read_results.py"]
SMALL = {"images": 60, "epochs": 1, "trials": 2, "seeds": 2}
PARAMETERS = '# %% tags=["parameters"]\n'


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


def shrink(script: Path) -> None:
    """Replace what the cell of parameters says, as papermill does."""
    head, mark, rest = script.read_text().partition(PARAMETERS)
    parameters, end, cells = rest.partition("\n# %%")
    for name, value in SMALL.items():
        parameters = re.sub(rf"^{name} = .*$", f"{name} = {value}", parameters, flags=re.M)
    script.write_text(head + mark + parameters + end + cells)


def run_as_users_do(script: Path) -> str:
    done = subprocess.run([sys.executable, script.name], cwd=script.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proof
def test_the_scripts_run_in_their_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for script in SCRIPTS[:2]:
        shrink(folder / script)
    assert "nt_xent:" in run_as_users_do(folder / SCRIPTS[0])
    with plugins_gone_afterwards(), without_ray(places=2):
        searched = runpy.run_path(SCRIPTS[1])
        read = runpy.run_path(SCRIPTS[2])
        # Summaries and packed models of this experiment take its plug-in into use.
        assert list(searched["found"].candidates["seeds"]) == [SMALL["seeds"]] * 2
        assert set(searched["found"].verdicts["verdict"]) <= {"better", "tie", "worse"}
        assert read["winner"].confirmed and len(read["retriever"].images_for("a star", 2)) == 2
    assert (folder / "curves.html").stat().st_size < 200_000
    assert "gradient_negatives" in capsys.readouterr().out


@pytest.mark.proof
def test_the_scripts_run_as_they_are_on_ray(folder: Path) -> None:
    printed = [run_as_users_do(folder / script) for script in SCRIPTS]
    assert "better" in printed[1] or "tie" in printed[1]
    assert "confirmed" in printed[2]


def test_the_page_names_every_script_and_all_are_in_cells() -> None:
    page = (EXAMPLES.parent / "examples.md").read_text()
    assert sorted(SCRIPTS) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    for script in SCRIPTS:
        assert f"](examples/{script})" in page
        assert (EXAMPLES / script).read_text().startswith("# %% [markdown]\n# # ")
