"""What ended a trial against its will, and whether it is tried again.

A trial that gets on between its failures is tried again however often it fails: on a cluster whose machines come and
go that is the usual life of a long training. One that fails again and again at the same epoch is given up.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.experiment.sections import Patience
from orchestrator.journal.trial import Trial
from trainables.errors import WANT_OF_MEMORY

MAX_FAILURES = 2
"""How often a trial is started again without having got on before it counts as failed."""

_DISK = re.compile(r"\[Errno (28|122|27)\]|No space left on device|Disk quota exceeded")


class Cause(StrEnum):
    """Why a trial failed, as far as it decides what is done about it."""

    ERROR = "error"
    """It raised an error, or its process or machine died."""
    MEMORY = "memory"
    """There was not enough memory, of the GPU or of the machine."""
    HUNG = "hung"
    """It reported nothing for longer than one is patient."""
    DISK = "disk"
    """There was no room for its checkpoint. That is not the trial's fault, nor its alone: the search is to stop."""
    PREEMPTED = "preempted"
    """Its machine was taken away, as spot machines are. That is nobody's fault, and costs no try."""
    CLAIM = "claim"
    """Another driver has claimed the checkpoints of all trials: the search is to stop, too."""


@dataclass(frozen=True)
class Failure:
    """One failure of a trial.

    Attributes:
        cause: What to do about it depends on this.
        message: For people, in one line.
    """

    cause: Cause
    message: str

    @classmethod
    def of(cls, text: str) -> "Failure":
        """Read what was raised: a traceback, or what Ray says of an actor that died."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = (lines or ["ended without a message"])[-1]
        # Looked for in the last line, because a traceback shows code, and in what Ray says when it ends an actor.
        told = next((line for line in lines if "running low on memory" in line), last)
        if _DISK.search(told):
            return cls(Cause.DISK, told[:500])
        if "ClaimLostError: " in told:
            return cls(Cause.CLAIM, told.partition("ClaimLostError: ")[2][:500])
        # Of an actor that was killed Ray says what may have done it, want of memory among others.
        is_short = WANT_OF_MEMORY.search(told) and "potential root causes" not in told
        return cls(Cause.MEMORY if is_short else Cause.ERROR, told[:500])

    @classmethod
    def preempted(cls) -> "Failure":
        """Return the failure of a trial whose machine was drained and taken away."""
        return cls(Cause.PREEMPTED, "its machine was taken away")

    @classmethod
    def hung(cls, minutes: float) -> "Failure":
        """Return the failure of a trial that was ended because it had been silent for so long."""
        return cls(Cause.HUNG, f"hung: reported no epoch for {minutes:g} minutes (patience.epoch_minutes)")


def give_up(trial: Trial, failure: Failure, patience: Patience) -> str | None:
    """Return why a trial is given up after a failure, or ``None`` where it is tried again."""
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
