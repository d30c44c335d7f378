"""A search outlives its display: a log that lacks its letters, a reader that closes the pipe, a full disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from orchestrator.journal.directory import read_history
from tests.support.precomputed_folder import write_precomputed

pytestmark = pytest.mark.proof

SETTINGS = {
    "name": "pets",
    "datasets": ["pets"],
    "losses": ["nt_xent"],
    "training": {"epochs": 1, "batch_size": 16, "embedding_size": 8},
    "search": {"trials": 2},
    "resources": {"cpus": 1, "gpus": 0},
}


def start(folder: Path, output: str, stdout: int, encoding: str) -> subprocess.Popen[bytes]:
    if not (folder / "data").exists():
        write_precomputed(folder / "data" / "pets")
        (folder / "pets.yaml").write_text(yaml.safe_dump(SETTINGS))
    command = [sys.executable, "-m", "orchestrator", "search", "pets.yaml", "--output", output]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(Path.cwd())}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_the_log_cannot_hold_are_escaped(tmp_path: Path, encoding: str) -> None:
    process = start(tmp_path, "runs", subprocess.PIPE, encoding)
    said, problem = process.communicate()
    assert (process.returncode, problem) == (0, b"")
    assert rb"\u03c4 = " in said
    assert read_history(tmp_path / "runs" / "pets").outcome == "finished"


def test_a_reader_that_leaves_and_a_full_disk_end_no_search(tmp_path: Path) -> None:
    process = start(tmp_path, "left", subprocess.PIPE, "utf-8")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    _, problem = process.communicate()
    assert (process.returncode, problem) == (0, b"")
    with Path("/dev/full").open("wb") as full:
        process = start(tmp_path, "full", full.fileno(), "utf-8")
        _, problem = process.communicate()
    assert process.returncode == 1
    assert problem == b"error: some output could not be written: No space left on device\n"
    assert [read_history(tmp_path / name / "pets").outcome for name in ("left", "full")] == ["finished"] * 2
