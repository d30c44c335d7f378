"""Processes that end with their starter; SIGTERM is handled like Ctrl-C, and Ray's own handler does not stay."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from orchestrator.machines.processes import kept_sigterm_handler, sigterm_as_ctrl_c
from tests.support.child_process import running

ROOT = Path(__file__).parents[3]
SLEEP = "import time; time.sleep(3600)"
STARTER = f"""
import os, sys
from orchestrator.machines.processes import bound_process
nested = "import subprocess, sys; print('there', flush=True); subprocess.run([sys.executable, '-c', {SLEEP!r}])"
with bound_process([sys.executable, "-c", nested], os.environ) as process:
    if sys.argv[1] == "wait":
        process.wait()
"""


@contextmanager
def started() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that waits for a process that it has started, and for the child of that."""
    command = [sys.executable, "-c", STARTER, "wait"]
    with running(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as starter:
        assert starter.stdout.readline() == b"there\n"
        yield starter


@pytest.mark.proof
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_starter_and_its_own_children_do(how: signal.Signals) -> None:
    with started() as starter:
        children = psutil.Process(starter.pid).children(recursive=True)
        assert len(children) >= 2
        starter.send_signal(how)
        starter.wait(120)
        assert survivors(children) == []


@pytest.mark.proof
@pytest.mark.parametrize("which", ["the first process in between", "the second process in between"])
def test_it_ends_where_its_starter_and_a_process_in_between_are_killed(which: str) -> None:
    with started() as starter:
        (first,) = psutil.Process(starter.pid).children()
        (second,) = [child for child in first.children() if child.cmdline() == first.cmdline()]
        children = [first, *first.children(recursive=True)]
        starter.send_signal(signal.SIGSTOP)
        (first if which.startswith("the first") else second).kill()
        starter.kill()
        starter.wait(120)
        assert survivors(children) == []


def survivors(children: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that do not end within two minutes, and end them."""
    _, alive = psutil.wait_procs(children, timeout=120)
    for process in alive:
        process.kill()
    return alive


@pytest.mark.proof
def test_it_ends_with_the_block() -> None:
    done = subprocess.run([sys.executable, "-c", STARTER, "leave"], cwd=ROOT, timeout=120)
    assert done.returncode == 0


@pytest.mark.proof
def test_its_exit_code_is_that_of_the_command() -> None:
    code = (
        "import os, sys; from orchestrator.machines.processes import bound_process\n"
        "with bound_process([sys.executable, '-c', 'raise SystemExit(7)'], os.environ) as process:\n"
        "    sys.exit(process.wait())"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120, env=os.environ).returncode == 7


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
