"""Trials of one process in lockstep: a round trains one epoch of all member trials at once.

The actor of a trial asks ``EpochBarrier.next`` for the trial's next epoch; the call returns when a round has trained
the epoch. A round begins when all members have asked, or when the members that asked have waited long enough for the
others. A trial that asks late joins the next round. A trial whose process died without leaving is dropped before the
next round, so that no round waits for a dead trial.

One thread, the worker, does everything that touches models: it takes trials in, lets trials go and trains rounds.
Other threads only leave requests under a lock. A worker that hangs cannot be ended, but its hang can be recognised
(``members``). Ray ends the silent trials of the round one by one, until the worker is busy with no member any more.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from orchestrator.workload.workload import TrialGroup
from trainables.checkpoint import EpochReport, Outcome
from trainables.config import TrialConfig
from trainables.errors import DivergedError, UserError

PATIENCE = 5.0
"""Least number of seconds for which the trials that have asked wait for the other members."""

WAITING_SHARE = 0.1
"""The wait as a share of the duration of the last round, where this wait is longer than ``PATIENCE``."""

Answer = Outcome | UserError | None
"""A trial's report, the error that ended the trial, or nothing where a new trial has no epoch yet."""


class _Task(NamedTuple):
    """Work for the worker; ``answers`` are those of the trials that wait for it, of which a removal has none."""

    work: Callable[[TrialGroup], Mapping[str, Answer]]
    answers: "dict[str, Future[Answer]]"


class EpochBarrier:
    """Trains the member trials of this process in rounds.

    ``make`` makes the group of trials on the worker thread, which alone touches the group.
    """

    def __init__(self, make: Callable[[], TrialGroup], patience: float = PATIENCE) -> None:
        self._make, self._patience = make, patience
        self._changed = threading.Condition()
        self._members: dict[str, Callable[[], bool]] = {}
        self._awaited: set[str] = set()
        self._tasks: deque[_Task] = deque()
        self._asked: dict[str, Future[Answer]] = {}
        self._reports: dict[str, EpochReport] = {}
        self._busy_with: frozenset[str] = frozenset()
        self._asked_since = self._round_seconds = 0.0
        threading.Thread(target=self._work, daemon=True).start()

    def members(self) -> int | None:
        """Return how many trials are members, taken in yet or not; ``None`` if the worker hangs and all have ended."""
        with self._changed:
            alive = {name for name, is_alive in self._members.items() if is_alive()}
            return None if self._busy_with and not self._busy_with & alive else len(alive)

    def reserve(self, name: str, is_alive: Callable[[], bool]) -> None:
        """Make a trial a member before it is taken in, so that the next round waits for the trial.

        ``is_alive`` returns whether the process of the trial's actor still runs.
        """
        with self._changed:
            self._members[name] = is_alive
            self._awaited.add(name)

    def start(self, name: str, config: TrialConfig, resume: Path | None) -> Answer:
        """Take a member trial in; return the report of its checkpoint if the trial is resumed, else ``None``."""
        answer: Future[Answer] = Future()
        with self._changed:
            self._tasks.append(_Task(lambda group: {name: group.add(name, config, resume)}, {name: answer}))
            self._changed.notify_all()
        return self._answered(name, answer)

    def next(self, name: str) -> Answer:
        """Wait for the round that trains a trial's next epoch; a trial whose error is returned has left its group."""
        answer: Future[Answer] = Future()
        with self._changed:
            # The wait for the others counts from the first trial that asks for a round.
            if not self._asked:
                self._asked_since = time.monotonic()
            self._awaited.add(name)
            self._asked[name] = answer
            self._changed.notify_all()
        return self._answered(name, answer)

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

    def _answered(self, name: str, answer: "Future[Answer]") -> Answer:
        result = answer.result()
        if not isinstance(result, EpochReport):
            return result
        self._reports[name] = result
        # The answer may go to another process, the model behind ``save`` may not.
        return replace(result, save=_stays_here)

    def _forget(self, name: str) -> None:
        self._members.pop(name, None)
        self._awaited.discard(name)
        if asked := self._asked.pop(name, None):
            asked.cancel()
        self._reports.pop(name, None)

        def remove(group: TrialGroup) -> Mapping[str, Answer]:
            group.remove(name)
            return {}

        # The worker alone removes the trial's model, between two rounds.
        self._tasks.append(_Task(remove, {}))

    def _work(self) -> None:
        group: TrialGroup | None = None
        while True:
            task = self._wait()
            error: Exception | None = None
            answers: Mapping[str, Answer] = {}
            try:
                group = group or self._make()
                answers = task.work(group)
            except (DivergedError, UserError) as refusal:
                # A value, because Ray turns an exception into the text of a traceback.
                answers = dict.fromkeys(task.answers, refusal)
            except Exception as failure:  # noqa: BLE001  # the actors that wait must get any error, or they wait forever
                error = failure
            with self._changed:
                # Before the trials get their answers, after which they may leave at once: a worker that has just
                # finished must not look as if it hung.
                self._busy_with = frozenset()
            for name, waiting in task.answers.items():
                if error is None:
                    waiting.set_result(answers[name])
                else:
                    waiting.set_exception(error)

    def _wait(self) -> _Task:
        """Wait for work and take it; trials that come or go are served before the next round."""
        with self._changed:
            while True:
                if self._tasks:
                    task = self._tasks.popleft()
                    self._busy_with = frozenset(task.answers)
                    return task
                if not self._asked:
                    self._changed.wait()
                # Dead trials are dropped before the wait: a round would wait for a dead trial until patience ends.
                elif dead := [name for name, is_alive in self._members.items() if not is_alive()]:
                    for name in dead:
                        self._forget(name)
                else:
                    patience = max(self._patience, WAITING_SHARE * self._round_seconds)
                    seconds_left = self._asked_since + patience - time.monotonic()
                    if self._awaited <= self._asked.keys() or seconds_left <= 0:
                        self._begin_round()
                    else:
                        self._changed.wait(seconds_left)

    def _begin_round(self) -> None:
        asked, self._asked = self._asked, {}
        # The next round waits for the trials of this round. A late trial is waited for only after it has asked again,
        # so that a trial that never asks again delays a single round.
        self._awaited = set(asked)
        self._tasks.append(_Task(lambda group: self._train(group, list(asked)), asked))

    def _train(self, group: TrialGroup, names: list[str]) -> Mapping[str, Outcome]:
        started = time.monotonic()
        outcomes = group.run_epoch(names)
        self._round_seconds = time.monotonic() - started
        return outcomes


def _stays_here(directory: Path) -> None:
    raise NotImplementedError("the process that trains the trial writes its checkpoint")
