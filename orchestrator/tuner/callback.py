"""Writes starts, failures and retries of trials into the journal, and ends trials that hang.

A trial that is tried again is issued again, as after a restart of the driver. Ray's own retries are not used: they
cannot wait until fewer trials run, and their count dies with the driver. The one exception is a running trial whose
machine was preempted: Ray counts no failure, and queues the trial by itself.

A trial that trains epochs between its failures is tried again however often it fails. Such failures are usual for a
long training on a cluster whose machines come and go. A trial that fails repeatedly at the same epoch is given up.
"""

import errno
import os
import re
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.tune.experiment import Trial as RayTrial
from ray.tune.progress_reporter import TrialProgressCallback

from orchestrator.experiment.sections import Patience
from orchestrator.journal.directory import Place, keep_error, write_places
from orchestrator.journal.lock import AlreadyRunningError
from orchestrator.journal.records import ConcurrencyLowered, TrialRetried, TrialStarted
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.tuner.issuer import MAX_FAILURES, Issuer
from orchestrator.tuner.source import TrialSource
from orchestrator.tuner.tune_patches import NotPickled
from trainables.errors import WANT_OF_MEMORY, last_error

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session


_DISK = re.compile(r"\[Errno (28|122|27)\]|No space left on device|Disk quota exceeded")


class Cause(StrEnum):
    """Why a trial failed; the cause decides whether the trial is tried again."""

    ERROR = "error"
    """The trial raised an error, or its process or machine died."""
    MEMORY = "memory"
    """There was not enough memory, of the GPU or of the machine."""
    HUNG = "hung"
    """The trial reported nothing for longer than the patience allows."""
    DISK = "disk"
    """There was no room for the trial's checkpoint, nor for other checkpoints: the search has to stop."""
    PREEMPTED = "preempted"
    """The trial's machine was taken away, as spot machines are; this does not count as a try."""
    CLAIM = "claim"
    """Another driver has claimed the checkpoints of all trials: the search has to stop."""


def failure_in(text: str) -> tuple[Cause, str]:
    """Return the cause that a text names, and a line for people.

    The text is a traceback, or Ray's message about an actor that died.
    """
    # Where Ray's memory monitor ended the actor, another line than that of the error names the cause.
    short = next((line.strip() for line in text.splitlines() if "running low on memory" in line), None)
    message = short or last_error(text) or "ended without a message"
    if _DISK.search(message):
        return Cause.DISK, message[:500]
    if "ClaimLostError: " in message:
        return Cause.CLAIM, message.partition("ClaimLostError: ")[2][:500]
    # Of any actor that was killed Ray lists "potential root causes", lack of memory among them.
    is_short = WANT_OF_MEMORY.search(message) and "potential root causes" not in message
    return Cause.MEMORY if is_short else Cause.ERROR, message[:500]


PREEMPTED = Cause.PREEMPTED, "its machine was taken away"
"""The failure of a trial whose machine was drained and taken away."""


def give_up(trial: Trial, cause: Cause, message: str, patience: Patience) -> str | None:
    """Return why a trial is given up after a failure, or ``None`` where the trial is tried again."""
    if cause is Cause.MEMORY:
        if trial.memory_retries < patience.memory_retries:
            return None
        return (
            f"out of memory, {trial.memory_retries + 1} times: {message}; "
            f"lower training.batch_size, or run fewer at a time with resources.max_concurrent or more resources.gpus"
        )
    return None if cause is Cause.PREEMPTED or trial.setbacks < MAX_FAILURES else message


PLACES_SECONDS = 1.0
"""Seconds between two writes of the places of the trials; thousands of short trials must not wait for writes."""


class TrialCallback(NotPickled, TrialProgressCallback):
    """Writes starts, errors and retries into the journal, of which Ray Tune informs neither searcher nor scheduler.

    The class takes the place of Ray's own progress callback, which would print nothing here and yet keep every trial.

    Attributes:
        problem: Why the search has to end: there is no room for checkpoints, or another driver has claimed the
            checkpoints; ``None`` while the search can continue.
    """

    def __init__(self, session: "Session", source: TrialSource, issuer: Issuer) -> None:
        self._ledger, self._checkpoints, self._on_step = session.ledger, session.checkpoints, session.on_step
        self._patience = session.experiment.patience
        self._source, self._issuer = source, issuer
        self._heard: dict[RayTrial, float] = {}
        self._hung: set[RayTrial] = set()
        self._places: dict[str, Place] = {}
        self._places_written = float("-inf")
        self._has_new_places = False
        self.problem: OSError | AlreadyRunningError | None = None

    def on_step_end(self, iteration: int, trials: list[RayTrial], **info: Any) -> None:
        """Let the display draw, and kill the actors of trials that have been silent for too long."""
        self._on_step()
        now = time.monotonic()
        if self._has_new_places and now - self._places_written >= PLACES_SECONDS:
            self._places_written, self._has_new_places = now, False
            with suppress(OSError):
                # Only live pages read the file.
                write_places(self._ledger.path.parent, self._places)
        silent_since = now - 60 * self._patience.epoch_minutes
        for trial, heard in self._heard.items():
            actor = trial.temporary_state.ray_actor
            if heard < silent_since and trial not in self._hung and actor is not None:
                # The trial is noted before the kill, because Ray then calls ``on_trial_error``, which reads the note.
                self._hung.add(trial)
                ray.kill(actor)

    def on_trial_start(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: Any) -> None:
        """Record that a trial has its actor, and the share of a GPU that the trial holds from now on."""
        self._heard[trial] = time.monotonic()
        placement = trial.placement_group_factory
        gpus = 0.0 if placement is None else placement.required_resources.get("GPU", 0.0)
        self._ledger.append(TrialStarted(trial=trial.config["trial"], gpus=gpus))

    def on_trial_result(
        self, iteration: int, trials: list[RayTrial], trial: RayTrial, result: dict[str, Any], **info: Any
    ) -> None:
        """Note where a trial runs, and the time of its newest report."""
        self._heard[trial] = time.monotonic()
        self._places[trial.config["trial"]] = Place(result.get("hostname", ""), result.get("pid", 0))
        self._has_new_places = True

    def on_trial_error(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: Any) -> None:
        """Issue a failed trial again, with fewer trials at a time if memory was short, or end the trial as failed."""
        self._forget(trial)
        recorded = self._ledger.history.trials[trial.config["trial"]]
        cause, message = self._failure(trial)
        # A full disk or a lost claim gets no record in the journal: all trials resume once the cause is removed.
        if cause is Cause.DISK:
            self.problem = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"checkpoint of {recorded.id}")
            return
        if cause is Cause.CLAIM:
            self.problem = AlreadyRunningError(f"{message}; this process stops, what it wrote before is whole")
            return
        with suppress(OSError):
            # Only people read this file; a disk that is full fails the next record of the journal.
            keep_error(self._ledger.path.parent, recorded.id, recorded.retries + 1, _error(trial) or message)
        reason = give_up(recorded, cause, message, self._patience)
        # The limit falls before the trial is issued again, because it must not start beside as many trials as before.
        if cause is Cause.MEMORY and (limit := self._issuer.run_fewer(trial.trial_id)) is not None:
            self._ledger.append(ConcurrencyLowered(trials=limit))
        # Each record comes first: a new driver repeats all that follows from a record, while a retry without its record
        # would not count.
        if reason is None:
            self._ledger.append(TrialRetried(trial=recorded.id, cause=cause, error=message))
            self._issuer.issue_again(recorded)
        else:
            self._ledger.end(recorded, TrialState.FAILED, reason)
            self._source.observe(recorded)
            self._checkpoints.prune(recorded.id)

    def on_trial_recover(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: Any) -> None:
        """Record that the machine of a running trial was preempted; Ray Tune itself has queued the trial again.

        Without the record, the trial would be charged for its share of a GPU while it waits for another machine.
        """
        self._forget(trial)
        # The next attempt is the same trial to Ray, and has not hung yet.
        self._hung.discard(trial)
        cause, message = PREEMPTED
        self._ledger.append(TrialRetried(trial=trial.config["trial"], cause=cause, error=message))

    def on_trial_complete(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: Any) -> None:
        """Remove the checkpoints of an ended trial except the newest, which holds the trial's best model."""
        self._forget(trial)
        recorded = self._ledger.history.trials[trial.config["trial"]]
        # A trial that a limit or a signal stops completes for Ray, too, but resumes later.
        if recorded.state is not TrialState.RUNNING:
            self._checkpoints.prune(recorded.id)

    def _forget(self, trial: RayTrial) -> None:
        self._heard.pop(trial, None)
        self._places.pop(trial.config["trial"], None)

    def _failure(self, trial: RayTrial) -> tuple[Cause, str]:
        if trial in self._hung:
            minutes = self._patience.epoch_minutes
            return Cause.HUNG, f"hung: reported no epoch for {minutes:g} minutes (patience.epoch_minutes)"
        # Each attempt is a new trial to Ray. Ray counts every failure of an actor except the preemption of its node, of
        # which Ray's error file says nothing. A trial without a counted failure is here only if its actor had not
        # started yet; for a running trial Ray calls ``on_trial_recover``.
        return failure_in(_error(trial)) if trial.run_metadata.num_failures else PREEMPTED


def _error(trial: RayTrial) -> str:
    """Return the text that Ray wrote about the newest failure of a trial."""
    path = trial.error_file
    text = Path(path).read_text(encoding="utf-8", errors="replace") if path and Path(path).is_file() else ""
    return text.rpartition("Failure # ")[2]
