"""Checkpoints in a folder of this machine, or in a folder that all nodes reach under the same path."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.storage.bucket import StorageError
from orchestrator.storage.claim import CLAIM_FILE, ClaimLostError
from orchestrator.storage.set_aside import move_aside
from orchestrator.storage.store import Entry
from trainables.checkpoint import epoch_of, list_epochs, list_partial, save_epoch
from trainables.files import write_whole
from trainables.reports import EpochReport


@dataclass(frozen=True)
class FolderStore:
    """Each checkpoint is ``TRIAL/epoch_0007``; ``Store`` describes the methods.

    Attributes:
        trials: Absolute path of the folder, in which each trial has a folder.
        token: Random digits that the driver wrote into the folder. By it, another node recognises the folder,
            and an actor that has outlived its driver notices that another driver has claimed the folder; empty: not
            looked at.
    """

    trials: Path
    token: str = ""

    @classmethod
    def claimed(cls, trials: Path) -> "FolderStore":
        """Mark a folder as this driver's: no actor that another driver sent writes there from now on."""
        token = secrets.token_hex(16)
        with (trials / CLAIM_FILE).open("a+", encoding="ascii") as file:
            # This call waits for an actor that is giving a checkpoint its name.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(token)
        return cls(trials, token)

    def check(self) -> None:
        """Look for the driver's token in the folder."""
        with self._undisputed():
            pass

    def entries(self, trial: str | None = None) -> list[Entry]:
        """List the folder of a trial, or of each trial."""
        folders = sorted(self.trials.glob("*/")) if trial is None else [self.trials / trial]
        return [
            Entry(folder.name, path.name, epoch_of(path.name) or 0, str(path))
            for folder in folders
            for path in list_epochs(folder)
        ]

    def fetch(self, entry: Entry) -> Path:
        """Return the checkpoint itself."""
        return self.trials / entry.trial / entry.name

    def save(self, trial: str, report: EpochReport, keep: int) -> None:
        """Write a folder aside; the claim is held while the folder gets its name and older folders are removed."""
        # The claim is checked before as well, so that an actor that is too late leaves nothing half written.
        self.check()
        save_epoch(self.trials / trial, report, keep, self._undisputed())

    def delete(self, entry: Entry) -> None:
        """Remove a folder as far as the file system lets it be removed."""
        shutil.rmtree(self.fetch(entry), ignore_errors=True)

    def set_aside(self, place: str, occasion: str) -> str:
        """Rename a folder."""
        return str(move_aside(self.trials / place, self.trials.parent, occasion))

    def partial(self) -> list[Path]:
        """Return the directories of checkpoints that are half written."""
        return [path for folder in sorted(self.trials.glob("*/")) for path in list_partial(folder)]

    def remove_partial(self) -> None:
        """Remove the directories that ``partial`` lists."""
        for path in self.partial():
            # A directory to which a living process writes may resist.
            shutil.rmtree(path, ignore_errors=True)

    def keep(self, trial: str, file: Path) -> None:
        """Copy a file into the folder of a trial, unless the file was made there."""
        target = self.trials / trial / file.name
        if target != file:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, file.read_bytes())

    def close(self) -> None:
        """Do nothing: the claim of the next driver replaces this claim."""

    @contextmanager
    def _undisputed(self) -> Iterator[None]:
        """Keep other drivers from claiming the folder, after a look whether another driver has."""
        if not self.token:
            yield
            return
        try:
            file = (self.trials / CLAIM_FILE).open(encoding="ascii")
        except FileNotFoundError:
            raise StorageError(
                f"{os.uname().nodename}: {self.trials} is not the folder that the driver writes to; give --storage "
                f"s3://bucket/prefix, or a --storage (or --output) that all nodes share"
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_SH)
            if file.read() != self.token:
                raise ClaimLostError(f"{self.trials}: another driver has claimed this folder")
            yield
