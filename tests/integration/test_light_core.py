"""The package without extras: what it promises runs, and what needs an extra names the extra in one line."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import light_core
from tests.support.installed import ROOT, asked, closure, link, make_environment
from trainables.extras import EXTRAS

BEGUN = ROOT / "tests" / "fixtures" / "begun_search"


def try_out(python: Path, folder: Path) -> dict[str, Any]:
    """Run the program of ``tests/support/light_core.py`` on a copy of the experiment, in a folder without the code."""
    experiments = shutil.copytree(BEGUN, folder / "experiments")
    program = shutil.copy(light_core.__file__, folder / "light_core.py")
    done = subprocess.run([python, program, folder, experiments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    """Everything that is promised was done, and everything else was refused before any work."""
    assert all(math.isfinite(number) for numbers in found["losses"].values() for number in numbers)
    assert len(found["losses"]) >= 9 and 0 < found["training"]["rsum"] <= 600
    for name, came in found["promised"].items():
        assert came["code"] == 0, (name, came["error"])
    for name, came in found["refused"].items():
        (line,) = came["error"].splitlines()
        assert came["code"] == 2 and not came["out"], name
        assert line.startswith("error: ") and line.endswith(f"pip install 'icr-orchestrator[{came['extra']}]'"), name
    for name, came in found["refused calls"].items():
        assert came["kind"] == "MissingExtraError", name
        assert came["error"].endswith(f"pip install 'icr-orchestrator[{came['extra']}]'"), name
    assert len(found["refused calls"]) == 3


@pytest.mark.proof
def test_the_core_keeps_its_promises_in_an_environment_of_its_own(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment", "train")
    # The scenes that the program trains on are in COCO's form.
    link(closure(asked("coco")).values(), tmp_path / "environment")
    listed = [Path(sys.executable).parent / "uv", "pip", "list", "--format", "json", "--python", python]
    packages = {one["name"] for one in json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)}
    assert {"icr-orchestrator", "torch"} <= packages
    assert not {"ray", "optuna", "mlflow", "plotly", "scipy", "pandas", "torchvision", "nltk"} & packages
    work = tmp_path / "work"
    work.mkdir()
    check(try_out(python, work))


@pytest.mark.proof
def test_a_table_is_judged_without_torch_and_engines_and_what_needs_torch_says_so(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment", "judge")
    (tmp_path / "t.csv").write_text("method,seed,acc\na,0,1.0\na,1,1.1\na,2,0.9\nb,0,2.0\nb,1,2.1\nb,2,2.2\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python.parent / "orchestrator", *words], cwd=tmp_path, capture_output=True, text=True)

    code = (
        "import importlib.util as u; print([m for m in ('torch','ray','optuna','mlflow','pandas') if u.find_spec(m)])"
    )
    assert subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    assert "b beats a by" in run("judge", "t.csv").stdout
    gate = run("gate", "g.json", "text:b", "--champion", "text:a", "--pair", "1,2")
    assert gate.returncode == 11 and gate.stdout.startswith("undecided:")
    assert "no dataset 'x'" in run("data", "describe", "x").stderr, "it reads datasets"
    for command in (("evaluate", "x"), ("cocos", "x"), ("judge", "begun")):
        refused = run(*command)
        assert refused.returncode == 2 and "pip install 'icr-orchestrator[train]'" in refused.stderr, refused.stderr


def test_every_extra_is_named_as_in_pyproject() -> None:
    modules = {
        "Flask-WTF": "flask_wtf",
        "psycopg2-binary": "psycopg2",
        "scikit-learn": "sklearn",
        "open-clip-torch": "open_clip",
        "sentence-transformers": "sentence_transformers",
    }
    core = {requirement.name for requirement in asked()}
    for extra, listed in EXTRAS.items():
        beside = {requirement.name for requirement in asked(extra)} - core
        assert set(listed) == {modules.get(name, name) for name in beside}
    left_out = {"wandb", "datasets", "parse", "video", "mcp"}
    brought = {one.name for extra in EXTRAS.keys() - left_out for one in asked(extra)}
    assert {one.name for one in asked("all")} - core == brought - core
