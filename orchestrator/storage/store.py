"""What the checkpoints of trials need of the place where they lie."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainables.reports import EpochReport


@dataclass(frozen=True)
class Entry:
    """A checkpoint in a store; it may be damaged, but none of its files is missing because it is half written.

    Attributes:
        trial: Id of the trial.
        name: Of the checkpoint's directory.
        epoch: After which the checkpoint was made, from 1.
        address: Where the checkpoint lies, for people.
    """

    trial: str
    name: str
    epoch: int
    address: str


class Store(Protocol):
    """A place for checkpoints; pickled, and used by the driver and by all actors at once."""

    def check(self) -> None:
        """Make sure that this process sees the checkpoints of the driver that sent it.

        Raises:
            StorageError: If this is another place than the driver's.
            ClaimLostError: If the place is another driver's by now.
        """
        ...

    def entries(self, trial: str | None = None) -> list[Entry]:
        """Return the checkpoints of a trial, or of all trials, the oldest epoch of each first, and nothing else."""
        ...

    def fetch(self, entry: Entry) -> Path:
        """Return a local directory with what is left of a checkpoint, until the next call for its trial."""
        ...

    def save(self, trial: str, report: EpochReport, keep: int) -> None:
        """Write the checkpoint of a report, then remove all checkpoints of the trial but the newest ``keep``."""
        ...

    def copy(self, trial: str, source: str, epoch: int) -> None:
        """Put another trial's checkpoint of an epoch, if it is there, in the place of all checkpoints of a trial."""
        ...

    def delete(self, entry: Entry) -> None:
        """Remove a checkpoint; one that is gone already is none to remove."""
        ...

    def remove_partial(self) -> None:
        """Remove what processes that were killed while they wrote a checkpoint left behind."""
        ...

    def keep(self, trial: str, file: Path) -> None:
        """Write a small file beside a trial's checkpoints, whole or not at all, over one of its name."""
        ...

    def close(self) -> None:
        """Give up this driver's claim to the place."""
        ...
