from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.journal.ledger import Ledger
from tests.support.commands import CommandLine
from tests.support.experiments import make_experiment, start


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """The ledger of an experiment that has just started."""
    made = Ledger(tmp_path / "journal.jsonl")
    start(made, make_experiment())
    yield made
    made.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the test, in which commands run and keep what they prepare."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str, Path], str]:
    """Return what one of the outputs in ``tests/support/outputs.py`` says of the experiment in a folder."""
    from tests.support.outputs import read_output

    return lambda output, folder: read_output(output, folder, monkeypatch, capsys)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of ``time.monotonic``, which a test moves."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now
