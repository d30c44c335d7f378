"""The process that delivers to MLflow, as the search sees it.

A trial costs MLflow's client about 40 ms of a processor, more than all else that the search does for a trial. In a
thread of the search, these 40 ms would be taken from the loop of Ray Tune, because one thread of Python runs at a time.
"""

import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from orchestrator.tracking.address import store_command
from trainables.extras import is_installed
from trainables.files import parse_state

COMMAND = (sys.executable, "-P", "-m", "orchestrator.tracking.tracker")
"""The process's program; ``-P`` keeps the folder where the user is from hiding modules of libraries."""

START_SECONDS = 60.0
"""Seconds that the process may need at most until it answers, besides the seconds that it is given."""

LOOK_SECONDS = 30.0
"""Seconds between two looks whether the process runs: a killed one is replaced, one that cannot start not too often."""

WITHOUT_MLFLOW = "nothing is in MLflow, which is not installed: pip install 'icr-orchestrator[tracking]'"


class TrackingProcess:
    """Keeps a store in step with a journal, in a process of its own, which ends when this process ends.

    Attributes:
        problem: After ``close``, what was not delivered, and why; ``None`` if all was delivered.
    """

    def __init__(self, uri: str, output: Path, experiment: str, journal: Path) -> None:
        # Through standard input, because other users can read command lines, and the address may have a password.
        self._target = json.dumps([uri, str(output), experiment, str(journal)]).encode() + b"\n"
        self._sync_command = store_command("sync", uri, output, experiment)
        self._process: subprocess.Popen[bytes] | None = None
        self._refusal = ""
        self._is_closing = threading.Event()
        self._watch = threading.Thread(target=self._keep, name="tracking process", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to deliver; without MLflow everything is left to a later delivery."""
        if is_installed("tracking"):
            self._look()
            self._watch.start()

    def close(self, seconds: float) -> None:
        """Deliver the rest within some seconds; if the store answers, no run of this search stays RUNNING."""
        if self._watch.ident is None:
            self.problem = f"{WITHOUT_MLFLOW}; then `{self._sync_command}` delivers all of it"
            return
        self._is_closing.set()
        self._watch.join()
        self._look()
        if self._process is None:
            self.problem = self._undelivered(f"cannot be started ({self._refusal})")
            return
        try:
            self.problem = self._ask(self._process, seconds)
        finally:
            self._end(self._process)

    def _keep(self) -> None:
        """Keep a process running until the search has ended."""
        while not self._is_closing.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Begin a process if none runs: the journal has everything that a new process needs."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            # Somebody killed it, or the memory ran out.
            self._end(self._process)
        try:
            self._process = self._begin()
        except OSError as error:
            # The machine has no memory or no process left. The search goes on, and the next look tries again.
            self._process, self._refusal = None, error.strerror or type(error).__name__

    def _begin(self) -> "subprocess.Popen[bytes]":
        # A session of its own, so that Ctrl-C in a terminal reaches the search alone.
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        _tell(process, self._target)
        return process

    def _ask(self, process: "subprocess.Popen[bytes]", seconds: float) -> str | None:
        """Tell the process that the search has ended, and return the answer of the process."""
        # Standard input stays open: its end would say that the search has died.
        _tell(process, b"%f\n" % seconds)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds + START_SECONDS)
            if process.returncode == 0:
                problem: str | None = parse_state(process.stdout.read())  # type: ignore[union-attr]
                return problem
        return self._undelivered("did not answer" if process.returncode is None else "has ended")

    def _undelivered(self, reason: str) -> str:
        return f"the process that delivers to MLflow {reason}; `{self._sync_command}` delivers what is missing there"

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            # Bytes that nobody has read are written when the pipe closes.
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]


def _tell(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    # What has ended meanwhile is found by its missing answer.
    with suppress(BrokenPipeError):
        process.stdin.write(line)  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
