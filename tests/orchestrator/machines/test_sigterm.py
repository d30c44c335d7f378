"""SIGTERM is handled like Ctrl-C, and Ray's own handler does not stay."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from orchestrator.machines.processes import kept_sigterm_handler, sigterm_as_ctrl_c


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_interrupts_and_afterwards_ends_the_process_again() -> None:
    with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(3600)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_an_ignored_sigterm_stays_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with sigterm_as_ctrl_c():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_replaced_handler_is_put_back() -> None:
    with sigterm_as_ctrl_c():
        with kept_sigterm_handler():
            signal.signal(signal.SIGTERM, lambda number, frame: None)
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler


def test_a_signal_that_the_other_handler_answers_with_an_exit_reaches_the_handler_put_back() -> None:
    with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c(), kept_sigterm_handler():
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(3600)


def test_another_exit_stays_an_exit() -> None:
    with pytest.raises(SystemExit, match="3"), sigterm_as_ctrl_c(), kept_sigterm_handler():
        sys.exit(3)


@pytest.mark.parametrize("block", [sigterm_as_ctrl_c, kept_sigterm_handler])
def test_a_thread_leaves_the_handler_alone(block: object) -> None:
    seen: list[object] = []

    def look() -> None:
        with block():  # type: ignore[operator]
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
