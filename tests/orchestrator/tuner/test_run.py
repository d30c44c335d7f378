"""What a person is told of Ray itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.machines.cluster import ClusterError
from orchestrator.tuner import runtime


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Timed out waiting for file gcs_server_port\nand more"),
        TimeoutError("no port"),
        Exception("The current node timed out during startup."),
    ],
)
def test_a_ray_that_does_not_start_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fail(**ignored: Any) -> None:
        raise error

    monkeypatch.setattr(runtime.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(runtime.ray, "init", fail)
    with (
        pytest.raises(
            ClusterError,
            match="Ray did not start on this machine: (Timed out|no port|The current node).*same command again",
        ),
        runtime.ray_runtime(tmp_path),
    ):
        pytest.fail("there is no Ray to run on")


def test_a_ray_that_a_busy_machine_starts_too_slowly_is_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts: list[Exception | None] = [Exception("The current node timed out during startup."), None]

    def start(**ignored: Any) -> None:
        if error := starts.pop(0):
            raise error

    monkeypatch.setattr(runtime.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(runtime.ray, "init", start)
    with runtime.ray_runtime(tmp_path):
        assert starts == []


SAYING = """
from orchestrator.tuner import runtime
from ray._private.worker import print_to_stdstream
for line in ("WARNING: 8 PYTHON worker processes have been started on node: x", "a worker was killed"):
    print_to_stdstream({"lines": [line], "pid": "raylet", "is_err": False}, ignore_prefix=False)
"""


@pytest.mark.proof
def test_of_what_ray_says_many_processes_are_no_news() -> None:
    done = subprocess.run([sys.executable, "-c", SAYING], capture_output=True, text=True, check=True)
    assert "a worker was killed" in done.stdout and "PYTHON" not in done.stdout + done.stderr
