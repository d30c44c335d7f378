"""``data extract --workers`` whose Ray dies, alone or with it: a sentence of ours, nothing left, and it resumes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.tuner.runtime import CORE
from tests.trainables.scenes_folder import write_scenes

pytestmark = pytest.mark.proof

PROGRAM = "from orchestrator.cli import main; main()"

RESUME = "finished shards are kept: resume with the same command\n"


@pytest.mark.timeout(900)
def test_an_extraction_whose_ray_dies_ends_in_order_and_resumes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, "data", "extract", "scenes", "--shard-size", "8", "--workers", "2"]
    command += ["--data-root", str(write_scenes(tmp_path / "data", images=256)), "--out", str(out)]
    command += ["--backbone", "resnet18", "--weights", "none"]
    for victim in (*CORE, "all"):
        there = finished(out)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while finished(out) == there:
            assert process.poll() is None
            time.sleep(0.01)
        family = psutil.Process(process.pid).children(recursive=True)
        if victim == "all":
            for one in (psutil.Process(process.pid), *family):
                os.kill(one.pid, signal.SIGTERM)
        else:
            next(one for one in family if one.name() == victim).kill()
        said = process.communicate(timeout=120)[1]
        if victim == "all":
            assert (process.returncode, said) == (130, f"interrupted: {out}: {RESUME}")
        else:
            assert process.returncode == 1 and said.startswith(f"error: {out}: Ray is gone ({CORE[victim]}): "), said
            assert said.endswith(f"; {RESUME}") and said.count("\n") == 1
        gone, left = psutil.wait_procs(family, timeout=60)
        assert (len(gone), left) == (len(family), [])
        assert (out / ".extract" / "lock").read_text() == ""
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert sorted(path.name for path in out.iterdir()) == ["features_global.json", "features_global.npy"]


def finished(out: Path) -> int:
    """Return how many shards are done."""
    return len(list((out / ".extract").glob("global_*.npy")))
