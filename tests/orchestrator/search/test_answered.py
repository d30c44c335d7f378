"""A signal that comes while no trial runs is answered, and the error says how to resume."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from orchestrator.search.resuming import answered
from trainables.errors import UserError


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let the tests be interrupted: what a shell started in the background ignores SIGINT."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_while_ray_starts_is_answered_at_once(capsys: pytest.CaptureFixture[str], number: int) -> None:
    with pytest.raises(UserError, match="resume with the same command"), answered(_error):
        os.kill(os.getpid(), number)
        time.sleep(3600)
    assert capsys.readouterr().err == "stopping; all records of the journal are kept\n"


def _error() -> UserError:
    return UserError("here: resume with the same command")
