"""A search from a notebook: an event loop runs, Ctrl-C ends a cell, and the same process searches again."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import orchestrator as icr
from orchestrator.searches import begin
from orchestrator.searches.resuming import SearchInterruptedError
from tests.integration.notebook_process import Cells, keys
from tests.support.in_process import without_ray
from tests.support.installed import ROOT
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig


@dataclass(frozen=True)
class InterruptedCells(Cells):
    """Ctrl-C comes while the second epoch of all is trained."""

    reports: list[int] = field(default_factory=list)

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        for report in super().train(config, resume):
            self.reports.append(report.epoch)
            if len(self.reports) == 2:
                raise KeyboardInterrupt
            yield report


def test_a_cell_that_was_interrupted_is_run_again_and_another_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = InterruptedCells()
    monkeypatch.setattr(begin, "make_workload", lambda *given: workload)

    async def cells() -> tuple[icr.LoadedExperiment, icr.LoadedExperiment]:
        with pytest.raises(SearchInterruptedError, match="resume with: orchestrator resume first"):
            icr.search(keys("first"), output=tmp_path, quiet=True)
        assert list(icr.load("first", output=tmp_path).trials["state"]) == ["running"]
        first = icr.search(keys("first"), output=tmp_path, quiet=True)
        return first, icr.search(keys("second"), output=tmp_path, quiet=True)

    # In a thread of its own, because tests of the browser leave an event loop running in this one.
    with without_ray(), ThreadPoolExecutor(1) as thread:
        first, second = thread.submit(asyncio.run, cells()).result()
    for found in (first, second):
        assert list(found.trials["state"]) == ["finished"] * 3
        assert len(found.epochs) == 12 and found.epochs.index.is_unique
    assert list(first.trials.index) == [name.replace("second", "first") for name in second.trials.index]


@pytest.mark.proof
def test_a_kernel_searches_on_ray_is_interrupted_and_searches_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.notebook_process", tmp_path / "runs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "resume with: orchestrator resume" in found["interrupted"]
    assert found["first"] == found["second"] == ["finished"] * 3
    assert found["epochs"] == [[1, 12]] and found["handler is Python's"]
