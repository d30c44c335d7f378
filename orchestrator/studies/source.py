"""What the tuner asks of a source of trials."""

from typing import Protocol

from orchestrator.journal.trial import Trial


class TrialSource(Protocol):
    """The trials of a stage, in their order."""

    @property
    def outstanding(self) -> int:
        """How many trials are still to be issued."""
        ...

    def next(self) -> Trial | None:
        """Return the next trial, which the journal holds by then; ``None`` where there is none (now, or any more)."""
        ...

    def observe(self, trial: Trial) -> None:
        """Take note of a trial that has a new epoch, or an end."""
        ...
