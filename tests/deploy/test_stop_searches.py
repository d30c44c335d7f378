"""A container that ends tells the searches in it, and waits for them."""

import runpy
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.deploy.files import DEPLOY

pytestmark = pytest.mark.proof

SEARCH = """import signal, sys, time
signal.signal(signal.SIGTERM, lambda *ignored: (time.sleep(0.5), print("journal written", flush=True), sys.exit(130)))
print("searching", flush=True)
time.sleep(600)
"""


def test_searches_are_told_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orchestrator").write_text(SEARCH)
    (tmp_path / "notes").write_text(SEARCH)
    search, other = (
        subprocess.Popen([sys.executable, tmp_path / name, "search"], stdout=subprocess.PIPE, text=True)
        for name in ("orchestrator", "notes")
    )
    try:
        for process in (search, other):
            assert process.stdout is not None and process.stdout.readline() == "searching\n"
        # Those of this machine alone that are ours: others may test searches at the same time.
        ours = [psutil.Process(process.pid) for process in (search, other)]
        monkeypatch.setattr(psutil, "process_iter", lambda names: [_with(each, names) for each in ours])
        runpy.run_path(str(DEPLOY / "image" / "stop-searches.py"), run_name="__main__")
        assert not ours[0].is_running() or ours[0].status() == psutil.STATUS_ZOMBIE
        assert search.communicate(timeout=240)[0] == "journal written\n"
        assert other.poll() is None
    finally:
        for process in (search, other):
            process.send_signal(signal.SIGKILL)
            process.communicate()


def _with(process: psutil.Process, names: list[str]) -> psutil.Process:
    process.info = process.as_dict(names)
    return process
