"""``trainables`` and ``search_spaces`` live without the engines, and training from features without image libraries."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.proof

BLOCK = """
import importlib, pkgutil, sys
class Hiding:
    # As if some packages were not installed: libraries that only ask whether they are there go on without them.
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in BLOCKED else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""

IMPORT_ALL = """
for package in PACKAGES:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        importlib.import_module(module.name)
        print(module.name)
"""

TRAIN = """
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.trial import run_trial
reports = list(run_trial(tiny_config(epochs=1), tiny_dataset(), device="cpu"))
print(reports[0].metrics["val/rsum"])
"""


CHECK = """
from trainables.config import TrialConfig, derive_seed
derive_seed(0)
try:
    TrialConfig(dataset="x", model="vsrn", model_parameters={"a": 1})
except ValueError as error:
    print(error)
"""


def run(blocked: set[str], program: str) -> str:
    code = f"BLOCKED = {blocked!r}\n" + BLOCK + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("blocked", "packages"),
    [
        pytest.param({"ray", "optuna", "mlflow", "orchestrator", "search_spaces"}, ["trainables"], id="trainables"),
        pytest.param({"ray", "optuna", "mlflow", "orchestrator", "torch"}, ["search_spaces"], id="search_spaces"),
    ],
)
def test_every_module_imports_without_the_engines(blocked: set[str], packages: list[str]) -> None:
    modules = run(blocked, f"PACKAGES = {packages!r}\n" + IMPORT_ALL).splitlines()
    assert len(modules) >= 2


def test_training_from_features_needs_torch_and_numpy_alone() -> None:
    engines, images, others = "ray optuna mlflow", "torchvision pycocotools nltk PIL", "pydantic yaml typer rich"
    blocked = set(f"{engines} {images} {others}".split())
    assert float(run(blocked, TRAIN)) > 0


def test_seeds_are_derived_and_configs_refused_without_torch() -> None:
    assert run({"torch"}, CHECK).startswith("model_parameters.a: vsrn has no such parameter")
