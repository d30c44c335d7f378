"""Trials of one process in step: a round is one epoch of all that are there.

Whoever trains a trial asks here for its next epoch and gets it when the round has ended. A round begins when all
members have asked, or when some have waited long enough for the others: a trial that is late joins the next one, and
one that is gone stops nobody: that whose process died without a word is let go before the next round. Everything that
is trained is touched by one thread alone. A thread that hangs cannot be ended, but it can be told: those whom it trains
are ended one by one because they are silent, and then nobody is left who waits for it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.workload.workload import TrialGroup
from trainables.config import TrialConfig
from trainables.reports import EpochReport, Outcome

PATIENCE = 5.0
"""Seconds that those who asked wait for the others, at least."""

WAITING_SHARE = 0.1
"""The same as a part of the round before, where that is more."""


@dataclass
class _Arrival:
    """A trial that wants to be taken in."""

    name: str
    config: TrialConfig
    resume: Path | None
    told: "Future[EpochReport | None]" = field(default_factory=Future)


class EpochBarrier:
    """Rounds of the trials of this process.

    Args:
        make: Makes what trains them, on the thread that will.
        patience: See ``PATIENCE``.
    """

    def __init__(self, make: Callable[[], TrialGroup], patience: float = PATIENCE) -> None:
        self._make, self._patience = make, patience
        self._changed = threading.Condition()
        self._members: dict[str, Callable[[], bool]] = {}
        self._awaited: set[str] = set()
        self._arrivals: deque[_Arrival] = deque()
        self._asked: dict[str, Future[Outcome]] = {}
        self._gone: list[str] = []
        self._reports: dict[str, EpochReport] = {}
        self._busy_with: frozenset[str] = frozenset()
        self._asked_since = self._round_seconds = 0.0
        threading.Thread(target=self._work, daemon=True).start()

    @property
    def members(self) -> int:
        """How many trials are there, or on their way."""
        with self._changed:
            return sum(is_alive() for is_alive in self._members.values())

    @property
    def is_stuck(self) -> bool:
        """Whether it trains, or takes in, trials of which none is there any more."""
        with self._changed:
            there = (name in self._members and self._members[name]() for name in self._busy_with)
            return bool(self._busy_with) and not any(there)

    def reserve(self, name: str, is_alive: Callable[[], bool]) -> None:
        """Count a trial as a member, for which the next round waits, before it is there.

        Args:
            name: Of the trial.
            is_alive: Whether whoever asks for it is still there.
        """
        with self._changed:
            self._members[name] = is_alive
            self._awaited.add(name)

    def start(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        """Take a trial in that is a member; return the report of its checkpoint where it is resumed.

        Raises:
            UserError: If it cannot run.
        """
        arrival = _Arrival(name, config, resume)
        with self._changed:
            self._arrivals.append(arrival)
            self._changed.notify_all()
        report = arrival.told.result()
        if report is not None:
            self._reports[name] = report
        return report

    def next(self, name: str) -> EpochReport:
        """Return a trial's next epoch, after the round that trains it.

        Raises:
            DivergedError: If it diverged; it is no member any more.
            PluginError: The same, if the code of its plug-in failed.
        """
        told: Future[Outcome] = Future()
        with self._changed:
            if not self._asked:
                self._asked_since = time.monotonic()
            self._awaited.add(name)
            self._asked[name] = told
            self._changed.notify_all()
        outcome = told.result()
        if isinstance(outcome, Exception):
            raise outcome
        self._reports[name] = outcome
        return outcome

    def save(self, name: str, directory: Path) -> None:
        """Write the checkpoint of a trial's newest epoch; before it asks for the next one."""
        self._reports[name].save(directory)

    def leave(self, name: str) -> None:
        """Let a trial go, which nobody waits for from now on."""
        with self._changed:
            self._forget(name)
            self._changed.notify_all()

    def _forget(self, name: str) -> None:
        self._members.pop(name, None)
        self._awaited.discard(name)
        if asked := self._asked.pop(name, None):
            asked.cancel()
        self._reports.pop(name, None)
        self._gone.append(name)

    def _work(self) -> None:
        together: TrialGroup | None = None
        while True:
            arrivals, gone, asked = self._wait()
            for arrival in arrivals:
                try:
                    with self._busy([arrival.name]):
                        together = together or self._make()
                        report = together.add(arrival.name, arrival.config, arrival.resume)
                except Exception as error:  # noqa: BLE001  # whatever it is, whoever asked is to hear of it
                    arrival.told.set_exception(error)
                else:
                    arrival.told.set_result(report)
            if together is not None:
                for name in gone:
                    together.remove(name)
                self._train(together, asked)

    def _train(self, together: TrialGroup, asked: "dict[str, Future[Outcome]]") -> None:
        if not asked:
            return
        started = time.monotonic()
        try:
            with self._busy(asked):
                outcomes = together.run_epoch(list(asked))
        except Exception as error:  # noqa: BLE001  # e.g. no memory for all of them
            for told in asked.values():
                told.set_exception(error)
            return
        self._round_seconds = time.monotonic() - started
        for name, told in asked.items():
            told.set_result(outcomes[name])

    @contextmanager
    def _busy(self, names: Iterable[str]) -> Iterator[None]:
        """Remember whom the work is for; it ends before they are told of it, after which they may go."""
        with self._changed:
            self._busy_with = frozenset(names)
        try:
            yield
        finally:
            with self._changed:
                self._busy_with = frozenset()

    def _wait(self) -> "tuple[list[_Arrival], list[str], dict[str, Future[Outcome]]]":
        """Wait until there is something to do, and take it: those who come and go before a round."""
        with self._changed:
            while True:
                arrivals, gone = list(self._arrivals), list(self._gone)
                self._arrivals.clear()
                self._gone.clear()
                if arrivals or gone:
                    return arrivals, gone, {}
                if self._asked:
                    if lapsed := [name for name, is_alive in self._members.items() if not is_alive()]:
                        for name in lapsed:
                            self._forget(name)
                        continue
                    left = self._asked_since + self._seconds_to_wait() - time.monotonic()
                    if self._awaited <= self._asked.keys() or left <= 0:
                        asked, self._asked = self._asked, {}
                        # Who was late is waited for again when it asks again.
                        self._awaited = set(asked)
                        return [], [], asked
                    self._changed.wait(left)
                else:
                    self._changed.wait()

    def _seconds_to_wait(self) -> float:
        return max(self._patience, WAITING_SHARE * self._round_seconds)
