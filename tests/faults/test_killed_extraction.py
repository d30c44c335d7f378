"""``data extract`` killed halfway and given again leaves the files of one that was never disturbed, byte for byte.

CI kills an extraction in ``tests/orchestrator/extraction/test_extraction.py``; here it has more images and shards.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trainables.scenes_folder import write_scenes

pytestmark = pytest.mark.proof

SHARED = Path(__file__).parents[3] / "shared" / "data"
PROGRAM = "from orchestrator.cli import main; main()"


@pytest.fixture
def scenes(tmp_path: Path) -> tuple[str, ...]:
    return ("scenes", "--data-root", str(write_scenes(tmp_path / "data", images=96)), "--shard-size", "8")


@pytest.fixture
def flickr8k() -> tuple[str, ...]:
    if not (SHARED / "flickr8k" / "images_test").is_dir():
        pytest.skip(f"the test photographs of Flickr8k are not in {SHARED / 'flickr8k'}")
    return ("flickr8k", "--data-root", str(SHARED), "--split", "test", "--shard-size", "50")


def start(dataset: tuple[str, ...], out: Path, cache: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", PROGRAM, "data", "extract", *dataset, "--out", str(out)]
    command += ["--backbone", "resnet18", "--weights", "none", "--features", "both"]
    return subprocess.Popen(command, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.DEVNULL)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "shards"), [("scenes", 12), ("flickr8k", 20)])
def test_killed_halfway_and_resumed_is_byte_identical(
    name: str, shards: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dataset = request.getfixturevalue(name)
    process = start(dataset, tmp_path / "killed", tmp_path / "cache")
    while len(done := list((tmp_path / "killed" / ".extract").glob("regions_*.npy"))) < shards // 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert shards // 2 <= len(done) < shards and not list((tmp_path / "killed").glob("features_*"))
    for folder in ("killed", "whole"):
        assert start(dataset, tmp_path / folder, tmp_path / "cache").wait() == 0
    killed = contents(tmp_path / "killed")
    assert killed == contents(tmp_path / "whole")
    assert killed.keys() == {f"features_{kind}.{end}" for kind in ("global", "regions") for end in ("npy", "json")}
