"""The interface through which the tuner gets its trials."""

from typing import Protocol

from orchestrator.journal.trial import Trial


class TrialSource(Protocol):
    """The trials of a stage, in the order in which they are to start."""

    @property
    def outstanding(self) -> int:
        """Number of trials that are still to be issued."""
        ...

    def next(self) -> Trial | None:
        """Return the next trial, which is already in the journal; ``None`` if no trial is to start now."""
        ...

    def observe(self, trial: Trial) -> None:
        """Note that a trial has a new epoch, or has ended."""
        ...
