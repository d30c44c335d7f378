"""A process that is bound to another ends with it, and takes along what it has started itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.proof

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


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_starter_and_its_own_children_do(how: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTER, "wait"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=listen_to_interrupts
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"there\n"
        children = psutil.Process(starter.pid).children(recursive=True)
        assert len(children) >= 2
        starter.send_signal(how)
        starter.wait(120)
        assert survivors(children) == []


@pytest.mark.parametrize("which", ["the first process in between", "the second process in between"])
def test_it_ends_where_its_starter_and_a_process_in_between_are_killed(which: str) -> None:
    command = [sys.executable, "-c", STARTER, "wait"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"there\n"
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


def test_it_ends_with_the_block() -> None:
    done = subprocess.run([sys.executable, "-c", STARTER, "leave"], cwd=ROOT, timeout=120)
    assert done.returncode == 0


def test_its_exit_code_is_that_of_the_command() -> None:
    code = (
        "import os, sys; from orchestrator.machines.processes import bound_process\n"
        "with bound_process([sys.executable, '-c', 'raise SystemExit(7)'], os.environ) as process:\n"
        "    sys.exit(process.wait())"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120, env=os.environ).returncode == 7


def listen_to_interrupts() -> None:
    """Undo what a shell does to the jobs that it puts into the background: they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
