"""The process that delivers to MLflow: it outlives no search, and whatever happens to it, nothing is lost."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tracking import tracker as tracker_module
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.tracker import Tracker, TrackingProcess
from tests.support.experiments import add_trial
from tests.support.records import append
from tests.support.stored_runs import assert_store_agrees


@pytest.fixture
def tracking(output: Path) -> TrackingProcess:
    return TrackingProcess(default_uri(output), output, "tiny", output / "journal.jsonl")


def begin(tracking: TrackingProcess) -> psutil.Process:
    """Begin to deliver, and return the process as the system sees it."""
    tracking.start()
    assert tracking._process is not None
    return psutil.Process(tracking._process.pid)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ignored(process: psutil.Process) -> int:
    """Return which signals a process ignores, as Linux says: bit n - 1 stands for signal n."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("SigIgn")).split()[1], 16)


@pytest.mark.proof
def test_what_happened_before_and_meanwhile_is_in_the_store_at_the_end(
    output: Path, tracking: TrackingProcess, ledger: Ledger
) -> None:
    add_trial(ledger, [1.0, 2.0])
    process = begin(tracking)
    add_trial(ledger, [3.0])
    # A batch system may send its signals to every process of a job.
    both = 1 << signal.SIGINT - 1 | 1 << signal.SIGTERM - 1
    wait_until(lambda: ignored(process) & both == both)
    process.send_signal(signal.SIGINT)
    process.terminate()
    add_trial(ledger, [1.0], state=TrialState.DIVERGED)
    append(ledger, "experiment_ended", outcome="finished")
    tracking.close(60)
    assert tracking.problem is None
    assert not process.is_running()
    assert_store_agrees(ledger.history, output)


@pytest.mark.proof
def test_a_process_that_was_killed_is_replaced_while_the_search_goes_on_and_at_its_end(
    output: Path, tracking: TrackingProcess, client: MlflowClient, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "LOOK_SECONDS", 0.1)
    begin(tracking).kill()
    add_trial(ledger, [1.0, 2.0])
    # Something comes to MLflow before the end of the search.
    wait_until(lambda: client.get_experiment_by_name("tiny") is not None)
    add_trial(ledger, [3.0])
    append(ledger, "experiment_ended", outcome="finished")
    tracking._is_closing.set()
    assert tracking._process is not None
    tracking._process.kill()
    tracking._process.wait(120)
    tracking.close(60)
    assert tracking.problem is None
    assert_store_agrees(ledger.history, output)


@pytest.mark.proof
def test_a_machine_that_can_start_no_process_leaves_the_delivery_to_sync(
    output: Path, tracking: TrackingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def begin(self: TrackingProcess) -> None:
        attempts.append(threading.current_thread().name)
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(TrackingProcess, "_begin", begin)
    monkeypatch.setattr(tracker_module, "LOOK_SECONDS", 0.1)
    tracking.start()
    wait_until(lambda: len(attempts) >= 3)
    tracking.close(60)
    assert set(attempts) == {"MainThread", "tracking process"}
    assert tracking.problem == missing(output, "cannot be started (Cannot allocate memory)")


def missing(output: Path, reason: str) -> str:
    command = f"`orchestrator sync tiny --output {output}`"
    return f"the process that delivers to MLflow {reason}; {command} delivers what is missing there"


SEARCH = """
import os, signal, sys, time
from pathlib import Path
from orchestrator.tracking.tracker import TrackingProcess
output = Path(sys.argv[1])
tracking = TrackingProcess(sys.argv[2], output, "tiny", output / "journal.jsonl")
tracking.start()
print(tracking._process.pid, flush=True)
time.sleep(float(sys.argv[3]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.proof
@pytest.mark.parametrize("seconds", [0, 3], ids=["at once", "while it delivers"])
def test_a_search_that_is_killed_takes_the_process_along(output: Path, ledger: Ledger, seconds: float) -> None:
    add_trial(ledger, [1.0])
    command = [sys.executable, "-c", SEARCH, str(output), default_uri(output), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as search:
        assert search.stdout is not None
        number = int(search.stdout.readline())
    wait_until(lambda: not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.stdin.readline(); sys.exit(1)", "has ended"),
        ("import time; time.sleep(600)", "did not answer"),
    ],
)
def test_a_process_that_gives_no_answer_is_said_and_ended(
    output: Path, tracking: TrackingProcess, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    monkeypatch.setattr(tracker_module, "COMMAND", (sys.executable, "-c", program))
    monkeypatch.setattr(tracker_module, "START_SECONDS", 1.0)
    process = begin(tracking)
    tracking.close(0)
    assert tracking.problem == missing(output, reason)
    assert not process.is_running()


@pytest.mark.proof
def test_a_password_is_not_on_the_command_line(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "START_SECONDS", 0.0)
    tracking = TrackingProcess("postgresql://me:secret@127.0.0.1:9/db", output, "tiny", output / "journal.jsonl")
    assert "secret" not in " ".join(begin(tracking).cmdline())
    tracking.close(0)


def test_a_damaged_journal_is_said(output: Path, ledger: Ledger) -> None:
    add_trial(ledger, [1.0])
    path = output / "journal.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"?" + content[41:])
    tracker = Tracker(default_uri(output), output, "tiny", path)
    tracker.start()
    tracker.close(10.0)
    assert f"{path}: line 1: damaged" in str(tracker.problem)


@pytest.mark.proof
def test_without_mlflow_nothing_is_sent_and_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "is_installed", lambda extra: extra != "tracking")
    tracking = TrackingProcess(default_uri(tmp_path), tmp_path, "tiny", tmp_path / "journal.jsonl")
    tracking.start()
    tracking.close(1.0)
    assert tracking.problem == (
        "nothing is in MLflow, which is not installed: pip install 'icr-orchestrator[tracking]'; "
        f"then `orchestrator sync tiny --output {tmp_path}` delivers all of it"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proof
def test_mlflow_says_nothing_about_its_own_work() -> None:
    levels = "[logging.getLogger(name).getEffectiveLevel() for name in ('mlflow', 'alembic')]"
    program = f"from orchestrator.tracking import connection; import logging, mlflow; print({levels})"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[40, 40]\n"
