"""Files that commands make under a careless umask: nobody else can change them, or the code that they name."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plugins import write_plugin
from tests.support.precomputed_folder import write_precomputed

pytestmark = pytest.mark.proof

SETTINGS = ("dataset=pets", "loss=mean_gap", "training.epochs=1", "training.batch_size=16", "training.embedding_size=8")


def test_what_a_training_makes_can_be_written_by_nobody_else(tmp_path: Path) -> None:
    write_precomputed(tmp_path / "data" / "pets")
    plugin = write_plugin(tmp_path)
    command = [sys.executable, "-m", "orchestrator", "train", "--data-root", "data", "--plugin", plugin.name]
    command += ["--device", "cpu"]
    command += [word for setting in SETTINGS for word in ("--set", setting)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(Path.cwd())}
    before = set(tmp_path.rglob("*"))
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, umask=0, stdout=subprocess.DEVNULL)
    made = set(tmp_path.rglob("*")) - before
    assert {path.name for path in made} >= {"cache", "icr-orchestrator", "plugins", "config.yaml", "history.jsonl"}
    assert [path for path in made if path.stat().st_mode & stat.S_IWOTH] == []
    closed = {path for path in made if path.is_dir() and stat.S_IMODE(path.stat().st_mode) == 0o700}
    assert all(closed & {path, *path.parents} for path in made if path.is_file())
