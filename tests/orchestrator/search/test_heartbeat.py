"""The clock of the live table, and how far it says that an epoch is."""

from collections.abc import Iterator

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.search import heartbeat
from orchestrator.search.heartbeat import EpochClock, Heartbeat
from tests.support.experiments import add_trial


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [100.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    yield now


def test_the_line_has_a_sign_of_life_a_clock_and_what_was_heard_last(clock: list[float]) -> None:
    line = Heartbeat()
    line.doing = "starting Ray on this machine"
    first = line.__rich__().plain
    clock[0] += 3725.0
    second = line.__rich__().plain
    assert first[1:] == " 00:00:00 · starting Ray on this machine"
    assert second[1:] == " 01:02:05 · starting Ray on this machine"
    line.hear()
    clock[0] += 4.25
    assert line.__rich__().plain[1:] == " 01:02:09 · newest epoch 4 s ago"
    frames = set()
    for _ in range(40):
        clock[0] += heartbeat.FRAME_SECONDS
        frames.add(line.__rich__().plain[0])
    assert frames == set(heartbeat.FRAMES)


def test_an_epoch_is_told_by_the_pace_of_those_before(ledger: Ledger, clock: list[float]) -> None:
    epochs = EpochClock(ledger.history)
    ledger.listeners.append(epochs.listen)
    first = add_trial(ledger, [], state=TrialState.RUNNING)
    clock[0] += 12.0
    # Nobody knows yet how long an epoch takes.
    assert epochs.progress(first) == "+12 s"
    ledger.report(first, 1, {"val/rsum": 1.0, "time/epoch_seconds": 20.0}, TrialState.RUNNING)
    assert epochs.progress(first) == "+0%"
    clock[0] += 8.0
    assert epochs.progress(first) == "+40%"
    second = add_trial(ledger, [], state=TrialState.RUNNING)
    clock[0] += 5.0
    # By the epochs of another trial of its study.
    assert epochs.progress(second) == "+25%"
    clock[0] += 14.0
    assert epochs.progress(second) == "+95%"
    # One that takes much longer than usual may hang: its seconds say more than a share.
    clock[0] += 20.0
    assert epochs.progress(second) == "+39 s"


def test_a_trial_that_began_before_this_process_says_nothing(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    assert EpochClock(ledger.history).progress(trial) == ""
