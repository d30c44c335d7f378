"""A signal that comes while no trial runs is answered, and the error says how to resume."""

import os
import signal
import time

import pytest

from orchestrator.search.answered import answered
from trainables.errors import UserError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_while_ray_starts_is_answered_at_once(capsys: pytest.CaptureFixture[str], number: int) -> None:
    with pytest.raises(UserError, match="resume with the same command"), answered(_error):
        os.kill(os.getpid(), number)
        time.sleep(60)
    assert capsys.readouterr().err == "stopping; what the journal holds is kept\n"


def _error() -> UserError:
    return UserError("here: resume with the same command")
