"""Trials of one process in lockstep: a round trains one epoch of all member trials at once.

The actor of a trial asks ``EpochBarrier.next`` for the trial's next epoch; the call returns when a round has trained
the epoch. A round begins when all members have asked, or when the members that asked have waited long enough for the
others. A trial that asks late joins the next round. A trial whose process died without leaving is dropped before the
next round, so that no round waits for a dead trial.

One thread, the worker, does everything that touches models: it takes trials in, lets trials go and trains rounds.
Other threads only leave requests under a lock. A worker that hangs cannot be ended, but a hang can be recognised: Ray
ends the silent trials of the round one by one, until no trial with which the worker is busy is a member any more
(``is_stuck``).
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
from trainables.checkpoint import EpochReport, Outcome
from trainables.config import TrialConfig

PATIENCE = 5.0
"""Least number of seconds for which the trials that have asked wait for the other members."""

WAITING_SHARE = 0.1
"""The wait as a share of the duration of the last round, where this wait is longer than ``PATIENCE``."""


@dataclass
class _Arrival:
    """A trial that the worker has still to take in.

    Then ``report`` gets the report of the checkpoint ``resume``, if there is one, or the error.
    """

    name: str
    config: TrialConfig
    resume: Path | None
    report: "Future[EpochReport | None]" = field(default_factory=Future)


class EpochBarrier:
    """Trains the member trials of this process in rounds.

    Args:
        make: Makes the group of trials that is trained; called on the worker thread, which alone touches the group.
        patience: Replaces ``PATIENCE``; seconds, >= 0.
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
        """How many trials are members, whether they have been taken in yet or not."""
        with self._changed:
            return sum(is_alive() for is_alive in self._members.values())

    @property
    def is_stuck(self) -> bool:
        """Whether the worker is busy, but with no trial that is a living member."""
        with self._changed:
            are_alive = (name in self._members and self._members[name]() for name in self._busy_with)
            return bool(self._busy_with) and not any(are_alive)

    def reserve(self, name: str, is_alive: Callable[[], bool]) -> None:
        """Make a trial a member before it is taken in, so that the next round waits for the trial.

        Args:
            name: Name of the trial.
            is_alive: Returns whether the process of the trial's actor still runs.
        """
        with self._changed:
            self._members[name] = is_alive
            self._awaited.add(name)

    def start(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        """Take a member trial in; return the report of its checkpoint if the trial is resumed, else ``None``.

        Raises:
            UserError: If the trial cannot run.
        """
        arrival = _Arrival(name, config, resume)
        with self._changed:
            self._arrivals.append(arrival)
            self._changed.notify_all()
        report = arrival.report.result()
        if report is not None:
            self._reports[name] = report
        return report

    def next(self, name: str) -> EpochReport:
        """Wait for the round that trains a trial's next epoch, and return the epoch's report.

        Raises:
            DivergedError: If the trial diverged; the group of trials has let it go.
            PluginError: If the code of the trial's plug-in failed; the group of trials has let it go.
        """
        answer: Future[Outcome] = Future()
        with self._changed:
            # The wait for the others counts from the first trial that asks for a round.
            if not self._asked:
                self._asked_since = time.monotonic()
            self._awaited.add(name)
            self._asked[name] = answer
            self._changed.notify_all()
        outcome = answer.result()
        if isinstance(outcome, Exception):
            raise outcome
        self._reports[name] = outcome
        return outcome

    def save(self, name: str, directory: Path) -> None:
        """Write the checkpoint of a trial's newest epoch.

        To be called before the trial asks for its next epoch: the next round changes the weights.
        """
        self._reports[name].save(directory)

    def leave(self, name: str) -> None:
        """Let a trial go; no round waits for the trial from now on."""
        with self._changed:
            self._forget(name)
            self._changed.notify_all()

    def _forget(self, name: str) -> None:
        self._members.pop(name, None)
        self._awaited.discard(name)
        if asked := self._asked.pop(name, None):
            asked.cancel()
        self._reports.pop(name, None)
        # The worker alone removes the trial's model, between two rounds.
        self._gone.append(name)

    def _work(self) -> None:
        group: TrialGroup | None = None
        while True:
            arrivals, gone, asked = self._wait()
            for arrival in arrivals:
                try:
                    with self._busy([arrival.name]):
                        group = group or self._make()
                        report = group.add(arrival.name, arrival.config, arrival.resume)
                except Exception as error:  # noqa: BLE001  # the actor that asked must get any error, or it waits forever
                    arrival.report.set_exception(error)
                else:
                    arrival.report.set_result(report)
            if group is not None:
                for name in gone:
                    group.remove(name)
                self._train(group, asked)

    def _train(self, group: TrialGroup, asked: "dict[str, Future[Outcome]]") -> None:
        if not asked:
            return
        started = time.monotonic()
        try:
            with self._busy(asked):
                outcomes = group.run_epoch(list(asked))
        except Exception as error:  # noqa: BLE001  # e.g. the memory does not suffice: every trial of the round must hear of it
            for answer in asked.values():
                answer.set_exception(error)
            return
        self._round_seconds = time.monotonic() - started
        for name, answer in asked.items():
            answer.set_result(outcomes[name])

    @contextmanager
    def _busy(self, names: Iterable[str]) -> Iterator[None]:
        """Remember for which trials the worker works, for ``is_stuck``.

        The note is removed before the trials get their results: a trial that has its result may leave at once, and a
        worker that has just finished must not look as if it hung.
        """
        with self._changed:
            self._busy_with = frozenset(names)
        try:
            yield
        finally:
            with self._changed:
                self._busy_with = frozenset()

    def _wait(self) -> "tuple[list[_Arrival], list[str], dict[str, Future[Outcome]]]":
        """Wait for work and take it; trials that come or go are served before the next round."""
        with self._changed:
            while True:
                arrivals, gone = list(self._arrivals), list(self._gone)
                self._arrivals.clear()
                self._gone.clear()
                if arrivals or gone:
                    return arrivals, gone, {}
                if self._asked:
                    # Dead trials are dropped before the wait: a round would wait for a dead trial until patience ends.
                    if dead := [name for name, is_alive in self._members.items() if not is_alive()]:
                        for name in dead:
                            self._forget(name)
                        continue
                    seconds_left = self._asked_since + self._seconds_to_wait() - time.monotonic()
                    if self._awaited <= self._asked.keys() or seconds_left <= 0:
                        asked, self._asked = self._asked, {}
                        # The next round waits for the trials of this round. A late trial is waited for only after it
                        # has asked again, so that a trial that never asks again delays a single round.
                        self._awaited = set(asked)
                        return [], [], asked
                    self._changed.wait(seconds_left)
                else:
                    self._changed.wait()

    def _seconds_to_wait(self) -> float:
        return max(self._patience, WAITING_SHARE * self._round_seconds)
