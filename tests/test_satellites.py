"""What hangs on one registration can be deleted: without its folder, the core imports, trains and evaluates."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.size import early_imports
from tests.support.precomputed_folder import write_precomputed
from tests.test_architecture import MODULES, PACKAGES, ROOT

SATELLITES = {
    "orchestrator/watch": ["orchestrator.commands.watch"],
    "orchestrator/exports": ["orchestrator.commands.export"],
    "trainables/serving": ["orchestrator.commands.retrieve"],
    "trainables/data/scenes": [],
    "trainables/judgements": [],
    "orchestrator/claims": ["orchestrator.commands.certify"],
}
"""Folder -> the modules with which it is registered; functions of other modules import it when they are called."""

RUN = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
import orchestrator
small = ["model=wsabie", "loss=nt_xent", "training.epochs=1", "training.batch_size=8", "training.embedding_size=4"]
done = orchestrator.train(overrides=["dataset=small", *small], data_root="data", output="runs")
print(orchestrator.evaluate(done.directory, data_root="data").metrics["rsum"])
"""
"""Imports the modules of a list, then trains and evaluates."""


@pytest.mark.proof
@pytest.mark.parametrize("folder", SATELLITES)
def test_the_core_lives_without_it(tmp_path: Path, folder: str) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / folder)
    core = [name for name in MODULES if not name.endswith("__main__") and name not in SATELLITES[folder]]
    core = [name for name in core if not any(_is_inside(name, satellite) for satellite in SATELLITES)]
    write_precomputed(tmp_path / "data" / "small")
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(core)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0 <= float(done.stdout.split()[-1]) <= 600


@pytest.mark.parametrize("folder", SATELLITES)
def test_no_module_of_the_core_loads_it(folder: str) -> None:
    loading = {
        name
        for name in MODULES
        if any(_is_inside(target, folder) for target in early_imports(name)) and not _is_inside(name, folder)
    }
    assert loading <= {*SATELLITES[folder]}


def _is_inside(module: str, folder: str) -> bool:
    return f"{module}.".startswith(f"{folder.replace('/', '.')}.")
