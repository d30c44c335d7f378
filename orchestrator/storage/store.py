"""The interface of a place for checkpoints: a folder, or a part of a bucket."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainables.reports import EpochReport


@dataclass(frozen=True)
class Entry:
    """A checkpoint in a store; it may be damaged, but is not half written.

    Attributes:
        trial: Id of the trial.
        name: Name of the checkpoint's directory.
        epoch: Epoch after which the checkpoint was made, from 1.
        address: Where the checkpoint lies, for people.
    """

    trial: str
    name: str
    epoch: int
    address: str


class Store(Protocol):
    """A place for checkpoints; pickled, and used by the driver and by all actors at once."""

    def check(self) -> None:
        """Make sure that this process sees the checkpoints of its driver.

        Raises:
            StorageError: If this process sees another place than its driver.
            ClaimLostError: If another driver has claimed the place.
        """
        ...

    def entries(self, trial: str | None = None) -> list[Entry]:
        """Return the checkpoints of a trial, or of all trials, the oldest epoch of each trial first."""
        ...

    def fetch(self, entry: Entry) -> Path:
        """Return a local directory with the files of a checkpoint, valid until the next call for its trial."""
        ...

    def save(self, trial: str, report: EpochReport, keep: int) -> None:
        """Write the checkpoint of a report, then remove all checkpoints of the trial but the newest ``keep``."""
        ...

    def delete(self, entry: Entry) -> None:
        """Remove a checkpoint, unless it is gone already."""
        ...

    def set_aside(self, place: str, occasion: str) -> str:
        """Move files out of the way of trials, and return where they lie then, for people.

        Args:
            place: ``TRIAL`` for all files of a trial, or ``TRIAL/NAME`` for one checkpoint.
            occasion: Name of the folder for everything that is moved at one time.

        Raises:
            OSError: If the files cannot be moved; a ``StorageError`` is one.
        """
        ...

    def remove_partial(self) -> None:
        """Remove the remains of processes that were killed while they wrote a checkpoint."""
        ...

    def keep(self, trial: str, file: Path) -> None:
        """Write a small file beside a trial's checkpoints, whole or not at all; a file of its name is replaced."""
        ...

    def close(self) -> None:
        """Give up this driver's claim to the place."""
        ...
