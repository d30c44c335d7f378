"""The process that follows the journal of a search and keeps MLflow in step with it, and how the search begins it.

A trial costs MLflow's client about 40 ms of a processor, more than all else that the search does for a trial. A thread
of the search would take these 40 ms from the loop of Ray Tune, because one thread of Python runs at a time.

The first line on standard input of the process names, as JSON, the store and the folder of the journal. At the end of
the search, the seconds that are left follow. The process then answers on standard output with its problem as JSON,
``null`` for none, and ends. If standard input ends before, the search has died: the process ends at once, because the
next start of the search delivers, too.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, JournalReader
from orchestrator.journal.records import TrialCreated, TrialRecord, TrialStarted
from orchestrator.text.values import count_text
from orchestrator.tracking.address import sync_command
from orchestrator.tracking.connection import take_turn
from orchestrator.tracking.failures import failure_of, store_failures
from orchestrator.tracking.store import Store
from trainables.extras import is_installed
from trainables.files import parse_state

COMMAND = (sys.executable, "-P", "-m", "orchestrator.tracking.tracker")
"""The process's program; ``-P`` keeps the folder where the user is from hiding modules of libraries."""

START_SECONDS = 60.0
"""Seconds that the process may need at most until it answers, besides the seconds that it is given."""

LOOK_SECONDS = 30.0
"""Seconds between two looks whether the process runs: a killed one is replaced, one that cannot start not too often."""

WITHOUT_MLFLOW = "nothing is in MLflow, which is not installed: pip install 'icr-orchestrator[tracking]'"

PAUSE = 0.5
"""Seconds between deliveries; the records of a trial in this time are sent in one request."""

HOLD = 3.0
"""Seconds for which a trial that has only begun waits: if it ends meanwhile, its run takes half as many requests."""

LONGEST_PAUSE = 30.0
"""Seconds between attempts, at most, while a store does not answer; each failure in a row doubles the pause."""


class TrackingProcess:
    """Keeps a store in step with a journal, in a process of its own, which ends when this process ends.

    After ``close``, ``problem`` is what was not delivered, and why; ``None`` if all was delivered.
    """

    def __init__(self, uri: str, output: Path, directory: Path) -> None:
        # Through standard input, because other users can read command lines, and the address may have a password.
        self._target = json.dumps([uri, str(output), str(directory)]).encode() + b"\n"
        self._sync_command = sync_command(uri, output, directory)
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
            _end(self._process)

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
            _end(self._process)
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
        """Announce the end of the search to the process, and return the answer of the process."""
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


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    # Closes the pipes and waits. Bytes that nobody has read are written when a pipe closes.
    with suppress(BrokenPipeError), process:
        pass


def _tell(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    # A process that has ended meanwhile gives no answer, which is noticed later.
    with suppress(BrokenPipeError):
        process.stdin.write(line)  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]


class Tracker:
    """Keeps a store in step with a journal, in a thread of its own.

    ``problem`` is why the last attempt failed or, after ``close``, what was not delivered; ``None`` if all was.
    """

    def __init__(self, uri: str, output: Path, directory: Path) -> None:
        self._uri, self._output, self._directory = uri, output, directory
        self._reader = JournalReader(directory / JOURNAL_FILE)
        self._history = History()
        # Trial -> reading of the monotonic clock from which on the trial is delivered.
        self._due: dict[str, float] = {}
        self._damage: JournalError | None = None
        self._turn: ExitStack | None = None
        self._store: Store | None = None
        self._deadline: float | None = None
        self._is_complete = False
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Deliver the rest within some seconds; if the store answers, no run of this search stays RUNNING."""
        self._deadline = time.monotonic() + seconds
        self._is_closing.set()
        self._thread.join(seconds + 5)
        if self._damage is not None:
            self.problem = str(self._damage)
        elif not self._is_complete:
            reason = self.problem or "it did not answer in time"
            missing = count_text(len(self._due), "run") if self._due else "the last records"
            command = sync_command(self._uri, self._output, self._directory)
            self.problem = f"{missing} not delivered to MLflow: {reason}; `{command}` delivers the rest afterwards"

    def _run(self) -> None:
        try:
            self._deliver_until_closed()
        finally:
            if self._turn is not None:
                self._turn.close()

    def _deliver_until_closed(self) -> None:
        failures, pause = store_failures(), PAUSE
        while True:
            # The deadline is read before the journal: the search writes nothing after ``close``, so the pass that ends
            # the thread has read all.
            deadline = self._deadline
            try:
                self._read()
                self._deliver(closing=deadline is not None)
                self.problem, pause = None, PAUSE
            except failures as error:
                # The store may have carried out a request whose answer was lost. A new ``Store`` reads it again.
                self._store = None
                self.problem, pause = str(failure_of(error, self._uri)), min(LONGEST_PAUSE, 2 * pause)
            if deadline is None:
                self._is_closing.wait(pause)
            elif self.problem is None or time.monotonic() > deadline:
                self._is_complete = self.problem is None
                return
            else:
                time.sleep(PAUSE)

    def _read(self) -> None:
        """Take the new records of the journal into account; of a damaged journal, the records before the damage."""
        if self._damage is not None or not self._reader.has_news():
            return
        try:
            for record in self._reader.read_on():
                self._history.apply(record)
                if isinstance(record, TrialCreated | TrialStarted):
                    self._due.setdefault(record.trial, time.monotonic() + HOLD)
                elif isinstance(record, TrialRecord):
                    self._due[record.trial] = 0.0
        except JournalError as error:
            self._damage = error

    def _deliver(self, *, closing: bool) -> None:
        if not self._history.experiment:
            # The search has recorded no start, so there is nothing to show.
            return
        if self._turn is None:
            # Kept until the end, because the store keeps in memory which runs there are.
            self._turn = take_turn(self._uri, self._directory)
        if closing:
            # A request that timed out may have been carried out since: the last pass reads the store again.
            self._store = None
        if self._store is None:
            self._store = Store(self._uri, self._output, self._directory, self._history.name)
            self._due |= dict.fromkeys(self._history.trials, 0.0)
        self._store.deliver(self._history, self._take_due(everything=closing), is_over=closing)

    def _take_due(self, *, everything: bool) -> Iterator[str]:
        """Yield the trials that are due; one is delivered, and so no longer due, when the next is asked for."""
        now = time.monotonic()
        for trial in [trial for trial, begin in self._due.items() if everything or begin <= now]:
            yield trial
            del self._due[trial]


def main() -> None:
    """Deliver what standard input asks for."""
    # A signal to the whole group, e.g. of a batch system, is for the search, which ends in order and then says so here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # What fails is tried again, and said in a sentence at the end: MLflow and SQLAlchemy would print tracebacks of each
    # connection that a server which is started again has closed.
    logging.disable(logging.ERROR)
    # The output of libraries goes to standard error: standard output is for the answer alone.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    uri, output, directory = parse_state(_read_line())
    tracker = Tracker(uri, Path(output), Path(directory))
    tracker.start()
    seconds = float(_read_line())
    threading.Thread(target=_read_line, daemon=True).start()
    tracker.close(seconds)
    answers.write(json.dumps(tracker.problem).encode())
    answers.close()
    # A request to a store that does not answer would keep its thread, and so this process, alive.
    os._exit(0)


def _read_line() -> bytes:
    """Return a line of standard input; its end says that the search has died, and ends this process."""
    if line := sys.stdin.buffer.readline():
        return line
    os._exit(1)


if __name__ == "__main__":
    main()
