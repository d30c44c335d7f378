"""The thread that brings records to MLflow, and how long it waits for a store that does not answer.

A delivery that fails is tried again after the store has been read again. At the end of a search, the message names what
the store still lacks.

A circuit breaker says how long to wait before the next request. While the breaker is closed, every attempt may be made.
A failure opens the breaker: no attempt may be made for a while, which doubles with each further failure. Then one
attempt may be made (half open), whose success closes the breaker.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from orchestrator.journal.history import History
from orchestrator.journal.records import Record, TrialCreated, TrialRecord, TrialStarted
from orchestrator.journal.trial import TrialState
from orchestrator.text.values import count_text
from orchestrator.tracking.address import sync_command
from orchestrator.tracking.connection import first_line, store_failures, take_turn
from orchestrator.tracking.store import STATUS, Store


class Breaker:
    """A circuit breaker around one service.

    Attributes:
        failures: Failures in a row; 0 while the breaker is closed.
    """

    def __init__(self, first: float, longest: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start closed.

        Args:
            first: Seconds for which the breaker stays open after the first failure, > 0.
            longest: Seconds for which the breaker stays open at most.
            clock: Returns monotonic seconds.
        """
        self._first, self._longest, self._clock = first, longest, clock
        self._opens_at = clock()
        self.failures = 0

    @property
    def remaining(self) -> float:
        """Seconds until the next attempt may be made; 0 if it may be made now."""
        return max(0.0, self._opens_at - self._clock())

    def succeed(self) -> None:
        """Note that an attempt succeeded."""
        self.failures = 0

    def fail(self) -> None:
        """Note that an attempt failed."""
        self.failures += 1
        self._opens_at = self._clock() + min(self._longest, self._first * 2 ** (self.failures - 1))


PAUSE = 0.5
"""Seconds between deliveries; the records of a trial in this time are sent in one request."""

HOLD = 3.0
"""Seconds for which a trial that has only begun waits: if it ends meanwhile, its run takes half as many requests."""

LONGEST_PAUSE = 30.0
"""Seconds between attempts, at most, while a store does not answer."""

ATTEMPTS = 3
"""Attempts at one delivery, a moment apart, before the store counts as not answering."""


class Tracker:
    """Keeps a store in step with the journal, in a thread of its own.

    Attributes:
        problem: Why the last attempt failed or, after ``close``, what was not delivered; ``None`` if all was delivered.
    """

    def __init__(self, uri: str, output: Path, experiment: str, past: Iterable[Record]) -> None:
        self._make_store: Callable[[], Store] = lambda: Store(uri, output, experiment)
        self._sync_command = sync_command(uri, output, experiment)
        self._history = History.of(past)
        # Trial -> reading of the monotonic clock from which on the trial is delivered.
        self._due = dict.fromkeys(self._history.trials, 0.0)
        self._records: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._deadline: float | None = None
        self._take_turn: Callable[[], IO[bytes]] = lambda: take_turn(uri, output, experiment)
        self._turn: IO[bytes] | None = None
        self._store: Store | None = None
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def listen(self, record: Record) -> None:
        """Queue a new record of the journal; the call returns at once."""
        self._records.put(record)

    def close(self, seconds: float) -> None:
        """Deliver the rest within some seconds; if the store answers, no run of this search stays RUNNING."""
        self._deadline = time.monotonic() + seconds
        self._thread.join(seconds + 5)
        if self._thread.is_alive() or self._due or not self._records.empty() or self.problem is not None:
            reason = self.problem or "it did not answer in time"
            missing = count_text(len(self._due), "run") if self._due else "the last records"
            remedy = f"`{self._sync_command}` delivers the rest when it answers again"
            self.problem = f"{missing} not delivered to MLflow: {reason}; {remedy}"

    def _run(self) -> None:
        try:
            self._deliver_until_closed()
        finally:
            if self._turn is not None:
                self._turn.close()

    def _deliver_until_closed(self) -> None:
        failures = store_failures()
        breaker = Breaker(2 * PAUSE, LONGEST_PAUSE)
        while True:
            # The deadline is read before the queue is emptied: a record that was put before ``close`` is in the queue
            # by then, and so is delivered by the pass that ends the thread.
            deadline = self._deadline
            self._take_records()
            try:
                self._deliver_in_attempts(failures, closing=deadline is not None)
                breaker.succeed()
                self.problem = None
            except failures as error:
                breaker.fail()
                self.problem = first_line(error)
            if deadline is not None and (self.problem is None or time.monotonic() > deadline):
                return
            self._sleep(breaker.remaining if breaker.failures else PAUSE)

    def _deliver_in_attempts(self, failures: tuple[type[Exception], ...], *, closing: bool) -> None:
        for attempt in Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(multiplier=PAUSE / 4),
            retry=retry_if_exception_type(failures),
            # The store may have carried out a request whose answer was lost. A new ``Store`` reads the store again.
            after=lambda state: self._forget_store(),
            reraise=True,
        ):
            with attempt:
                self._deliver(closing=closing)

    def _forget_store(self) -> None:
        self._store = None

    def _take_records(self) -> None:
        while not self._records.empty():
            record = self._records.get()
            self._history.apply(record)
            if isinstance(record, TrialCreated | TrialStarted):
                self._due.setdefault(record.trial, time.monotonic() + HOLD)
            elif isinstance(record, TrialRecord):
                self._due[record.trial] = 0.0

    def _deliver(self, *, closing: bool) -> None:
        if not self._history.experiment:
            # The search has recorded no start, so there is nothing to show.
            return
        if self._turn is None:
            # Kept until the end, because the store keeps in memory which runs there are.
            self._turn = self._take_turn()
        if closing:
            # A request that timed out may have been carried out since: the last pass reads the store again.
            self._forget_store()
        if self._store is None:
            self._store = self._make_store()
            self._due |= dict.fromkeys(self._history.trials, 0.0)
            if not closing:
                self._store.open_studies(self._history)
        status = {**STATUS, TrialState.RUNNING: "KILLED"} if closing else STATUS
        now = time.monotonic()
        for trial in [one for one, begin in self._due.items() if closing or begin <= now]:
            self._store.deliver(self._history, [trial], status)
            del self._due[trial]
        self._store.show_progress(self._history)
        if closing:
            self._store.end_studies(self._history, "FINISHED" if self._history.outcome == "finished" else "KILLED")

    def _sleep(self, seconds: float) -> None:
        """Sleep for some seconds, or until the tracker is closed."""
        until = time.monotonic() + seconds
        was_open = self._deadline is None
        while time.monotonic() < until and not (was_open and self._deadline is not None):
            time.sleep(0.05)
