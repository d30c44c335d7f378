"""Which running trials have an actor according to the journal, and how many GPUs each actor takes."""

from dataclasses import dataclass, field

from orchestrator.journal.experiment_records import ExperimentEnded, ExperimentStarted
from orchestrator.journal.record import Record
from orchestrator.journal.trial_records import TrialPaused, TrialRetried, TrialStarted, has_ended


@dataclass
class Actors:
    """The actors of the newest start.

    Attributes:
        gpus: Trial -> GPUs that its actor takes.
    """

    gpus: dict[str, float] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        """Take one record into account."""
        if isinstance(record, TrialStarted):
            self.gpus[record.trial] = record.gpus
        elif isinstance(record, (ExperimentStarted, ExperimentEnded)):
            self.gpus.clear()
        # A trial that is retried or paused resumes later, in another actor.
        elif isinstance(record, (TrialRetried, TrialPaused)) or has_ended(record):
            self.gpus.pop(record.trial, None)
