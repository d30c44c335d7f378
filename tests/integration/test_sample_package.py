"""The sample package of docs/plugins.md is installed as its users install theirs, found, and checked."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.plugins import EXAMPLES

pytestmark = pytest.mark.proof

SOURCE = EXAMPLES / "icr-pair-losses"
OFFERED = [("losses", "pair_hinge"), ("models", "bag_of_words")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the package is installed, beside what is installed here."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("no pip in this environment")
    folder = tmp_path_factory.mktemp("package")
    # The build writes beside its sources.
    source = shutil.copytree(SOURCE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--target", folder / "installed"]
    subprocess.run([*pip, *options, source], check=True)
    return {**os.environ, "PYTHONPATH": f"{folder / 'installed'}{os.pathsep}{EXAMPLES.parents[1]}"}


def run(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_entry_points_are_found_and_keep_what_ours_keep(environment: dict[str, str]) -> None:
    program = "from orchestrator.cli import main; main()"
    rows = json.loads(run(environment, "-c", program, "plugins", "--json"))
    assert [(row["kind"], row["name"], row["version"]) for row in rows] == [(*one, "1.0.0") for one in OFFERED]
    offers = json.loads(run(environment, "-c", program, "check-plugin", "icr-pair-losses", "--json"))["offers"]
    assert [(one["kind"], one["name"]) for one in offers] == OFFERED
    assert {check["status"] for one in offers for check in one["checks"]} == {"ok"}


def test_its_own_test_passes(environment: dict[str, str]) -> None:
    options = ["-q", "-n0", "-p", "no:cacheprovider", "--rootdir", str(SOURCE), "-c", os.devnull]
    assert "2 passed" in run(environment, "-m", "pytest", *options, str(SOURCE / "tests"))
