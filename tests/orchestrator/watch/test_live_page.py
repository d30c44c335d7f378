"""The page of an experiment while its journal grows, without a server."""

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.journal import ledger as writing
from orchestrator.watch.app import Server
from orchestrator.watch.experiments import Experiments
from tests.support.experiments import add_trial, begun


def test_as_of_moves_when_the_journal_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_800_000_000.0]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(writing, "time", clock)
    experiments = Experiments(tmp_path)
    server = Server(experiments, "runs", "test")

    def as_of() -> list[str]:
        return re.findall(r"as of ([^<]+)<", server.html(experiments.find("tiny")))

    with begun(tmp_path / "tiny") as ledger:
        assert as_of() == ["2027-01-15 08:00:00 UTC"]
        now[0] += 61
        assert as_of() == ["2027-01-15 08:00:00 UTC"], "the time of the newest record, and not of the look"
        add_trial(ledger, [30.0])
        assert as_of() == ["2027-01-15 08:01:01 UTC"]
