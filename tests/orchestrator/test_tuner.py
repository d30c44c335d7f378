"""What a person is told where Ray itself does not start."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator import tuner
from orchestrator.cluster import ClusterError


@pytest.mark.parametrize(
    "error", [RuntimeError("Timed out waiting for file gcs_server_port\nand more"), TimeoutError("no port")]
)
def test_a_ray_that_does_not_start_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fail(**ignored: Any) -> None:
        raise error

    monkeypatch.setattr(tuner.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(tuner.ray, "init", fail)
    with (
        pytest.raises(ClusterError, match="Ray did not start on this machine: (Timed out|no port).*same command again"),
        tuner.ray_runtime(tmp_path),
    ):
        pytest.fail("there is no Ray to run on")
