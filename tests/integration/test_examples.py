"""The scripts of docs/examples.md run one after the other, as small as they can be; on Ray in the sizes they have."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_process import without_ray
from tests.support.plugins import EXAMPLES, plugins_gone_afterwards

SCRIPTS = ["own_loss.py", "search_and_verdict.py", "read_results.py"]
SMALL = {"images": 60, "epochs": 1, "trials": 2, "seeds": 2}
PARAMETERS = '# %% tags=["parameters"]\n'


def run_cells(script: Path, sizes: dict[str, int]) -> dict[str, Any]:
    """Run a script with some of its parameters replaced, as papermill does; return its names."""
    head, mark, rest = script.read_text().partition(PARAMETERS)
    parameters, end, cells = rest.partition("\n# %%")
    for name in re.findall(r"^(\w+) = ", parameters, re.M):
        if name in sizes:
            parameters = re.sub(rf"^{name} = .*$", f"{name} = {sizes[name]}", parameters, flags=re.M)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(head + mark + parameters + end + cells, script, "exec"), names)
    return names


@pytest.fixture(params=["in this process", pytest.param("on Ray", marks=pytest.mark.soak)])
def sizes(request: pytest.FixtureRequest) -> Iterator[dict[str, int]]:
    """What replaces the sizes of the scripts; on Ray and with MLflow, nothing does."""
    if request.param == "on Ray":
        yield {}
        return
    with without_ray(places=2):
        yield SMALL


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_scripts_run_in_their_order(
    sizes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("ORCHESTRATOR_DATA_ROOT", raising=False)
    with plugins_gone_afterwards():
        trained = run_cells(folder / SCRIPTS[0], sizes)
        assert trained["mine"].metrics["val/rsum"] > 0 and Path(trained["theirs"].checkpoint).is_dir()
        searched = run_cells(folder / SCRIPTS[1], sizes)
        seeds = searched["seeds"]
        assert list(searched["found"].candidates["seeds"]) == [seeds, seeds]
        assert set(searched["found"].verdicts["verdict"]) <= {"better", "tie", "worse"}
        read = run_cells(folder / SCRIPTS[2], sizes)
    assert read["winner"].confirmed and len(read["retriever"].images_for("a star", 2)) == 2
    assert (folder / "curves.html").stat().st_size < 200_000
    assert "gradient_negatives" in capsys.readouterr().out


def test_the_page_names_every_script_and_all_are_in_cells() -> None:
    page = (EXAMPLES.parent / "examples.md").read_text()
    assert sorted(SCRIPTS) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    for script in SCRIPTS:
        assert f"](examples/{script})" in page
        assert (EXAMPLES / script).read_text().startswith("# %% [markdown]\n# # ")
