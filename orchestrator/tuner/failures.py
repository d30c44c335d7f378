"""The causes of failures of trials, and whether a failed trial is tried again.

A trial that trains epochs between its failures is tried again however often it fails, which is usual for a long
training on a cluster whose machines come and go. A trial that fails repeatedly at the same epoch is given up.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.experiment.sections import Patience
from orchestrator.journal.trial import Trial
from trainables.errors import WANT_OF_MEMORY

MAX_FAILURES = 2
"""Retries that a trial gets without a new epoch; the next failure ends the trial as failed."""

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


@dataclass(frozen=True)
class Failure:
    """One failure of a trial.

    Attributes:
        cause: Decides whether the trial is tried again.
        message: Message for people, in one line.
    """

    cause: Cause
    message: str

    @classmethod
    def of(cls, text: str) -> "Failure":
        """Return the failure described by a text: a traceback, or Ray's message about an actor that died."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = (lines or ["ended without a message"])[-1]
        # The last line names the error, below the code that a traceback shows. Where Ray's memory monitor ended the
        # actor, another line names the cause.
        message = next((line for line in lines if "running low on memory" in line), last)
        if _DISK.search(message):
            return cls(Cause.DISK, message[:500])
        if "ClaimLostError: " in message:
            return cls(Cause.CLAIM, message.partition("ClaimLostError: ")[2][:500])
        # Of any actor that was killed Ray lists "potential root causes", lack of memory among them.
        is_short = WANT_OF_MEMORY.search(message) and "potential root causes" not in message
        return cls(Cause.MEMORY if is_short else Cause.ERROR, message[:500])

    @classmethod
    def preempted(cls) -> "Failure":
        """Return the failure of a trial whose machine was drained and taken away."""
        return cls(Cause.PREEMPTED, "its machine was taken away")

    @classmethod
    def hung(cls, minutes: float) -> "Failure":
        """Return the failure of a trial that was ended because it had reported nothing for some minutes."""
        return cls(Cause.HUNG, f"hung: reported no epoch for {minutes:g} minutes (patience.epoch_minutes)")


def give_up(trial: Trial, failure: Failure, patience: Patience) -> str | None:
    """Return why a trial is given up after a failure, or ``None`` where the trial is tried again."""
    if failure.cause is Cause.MEMORY:
        if trial.memory_retries < patience.memory_retries:
            return None
        return (
            f"out of memory, {trial.memory_retries + 1} times: {failure.message}; "
            f"lower training.batch_size, or run fewer at a time with resources.max_concurrent or more resources.gpus"
        )
    if failure.cause is Cause.PREEMPTED:
        return None
    return None if trial.setbacks < MAX_FAILURES else failure.message
