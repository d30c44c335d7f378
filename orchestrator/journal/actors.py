"""Which trials have an actor, as far as the journal says, and what these take; the others wait for room."""

from dataclasses import dataclass, field

from orchestrator.journal.journal import Record

LEAVES = ("trial_retried", "trial_paused")
"""Records of trials that go on later, in another actor."""


@dataclass
class Actors:
    """Those of the newest start.

    Attributes:
        gpus: Trial -> what its actor takes.
    """

    gpus: dict[str, float] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        """Take one record into account."""
        if record["kind"] == "trial_started":
            self.gpus[record["trial"]] = record["gpus"]
        elif record["kind"] in ("experiment_started", "experiment_ended"):
            self.gpus.clear()
        elif record["kind"] in LEAVES or has_ended(record):
            self.gpus.pop(record["trial"], None)


def has_ended(record: Record) -> bool:
    """Say whether a record is the last of its trial."""
    return bool(record.get("state", "running") != "running")
