"""Short turns last from the first search of a process that begins to the last one that ends."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.tracking import tracker as tracker_module
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.tracker import Tracker
from orchestrator.tracking.turns import TURN_SECONDS, ShortTurns

USUAL = 0.005


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    """Begin with Python's own interval, whatever ran before in this process, and leave what was there."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL)
    yield
    sys.setswitchinterval(before)


def test_of_two_searches_the_last_to_end_brings_the_interval_back() -> None:
    turns = ShortTurns()
    turns.begin()
    turns.begin()
    assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(USUAL)


def test_an_interval_of_the_user_comes_back() -> None:
    turns = ShortTurns()
    for interval in (0.02, 0.001):
        sys.setswitchinterval(interval)
        turns.begin()
        turns.end()
        assert sys.getswitchinterval() == pytest.approx(interval)


def test_a_tracker_shortens_turns_until_it_closes(
    tmp_path: Path, store_template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(store_template, tmp_path / "mlflow.db")
    monkeypatch.setattr(tracker_module, "SHORT_TURNS", ShortTurns())
    ledger = Ledger(tmp_path / "journal.jsonl")
    tracker = Tracker(default_uri(tmp_path), tmp_path, "tiny", ledger.past)
    tracker.start()
    assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
    tracker.close(60)
    assert sys.getswitchinterval() == pytest.approx(USUAL)
    ledger.close()
