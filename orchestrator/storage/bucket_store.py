"""Checkpoints in a bucket: written to a local folder first, then uploaded, and only then reported."""

import atexit
import re
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from orchestrator.journal.lock import make_directory, mark_directory, remove_abandoned
from orchestrator.storage.bucket import ObjectStore
from orchestrator.storage.claim import Claim
from orchestrator.storage.set_aside import FOLDER
from orchestrator.storage.store import Entry
from trainables.checkpoint import epoch_of, save_epoch
from trainables.reports import EpochReport

SCRATCH = "actors-"
"""Kind of the scratch directories in which actors write checkpoints before the upload."""


@dataclass(frozen=True)
class BucketStore:
    """Each checkpoint is ``TRIAL/epoch_0007-`` and eight random digits; ``Store`` describes the methods.

    The digits keep an actor that was given up but still lives from spoiling the checkpoints of its successor.

    Attributes:
        bucket: The part of a bucket in which each trial has a directory.
        claim: The driver's claim; ``None``: no claim is looked at.
    """

    bucket: ObjectStore
    claim: Claim | None = None

    @classmethod
    def claimed(cls, bucket: ObjectStore, directory: Path) -> "BucketStore":
        """Claim a part of a bucket for the driver of an experiment's directory.

        Raises:
            AlreadyRunningError: If another driver, which may be alive, has claimed it.
        """
        return cls(bucket, Claim.make(bucket, directory))

    def check(self) -> None:
        """Do nothing: an address means one place on all machines, and ``save`` looks at the claim."""

    def entries(self, trial: str | None = None) -> list[Entry]:
        """List the whole directories, with one request."""
        paths = self.bucket.names("", depth=2) if trial is None else [(trial, *n) for n in self.bucket.names(trial)]
        found = (self._entry(trial, name) for trial, name in paths)
        return sorted((entry for entry in found if entry), key=lambda entry: (entry.trial, entry.epoch, entry.name))

    def fetch(self, entry: Entry) -> Path:
        """Download a directory into the scratch folder of this process."""
        target = _scratch_of(entry.trial) / f"epoch_{entry.epoch:04d}"
        with suppress(FileNotFoundError):
            self.bucket.get(_key(entry), target)
        return target

    def save(self, trial: str, report: EpochReport, keep: int) -> None:
        """Write a folder on this machine, upload the folder, then delete older checkpoints."""
        self._check_claim()
        self._upload(save_epoch(_scratch_of(trial), report), trial, report.epoch)
        for old in self.entries(trial)[:-keep]:
            self.delete(old)

    def delete(self, entry: Entry) -> None:
        """Delete a directory."""
        self.bucket.delete(_key(entry))

    def set_aside(self, place: str, occasion: str) -> str:
        """Copy objects within the bucket, then delete them at their former place."""
        trial, _, name = place.partition("/")
        # Deeper than checkpoints lie, so that no listing takes the copy for a checkpoint of a trial.
        target = f"{FOLDER}/{occasion}/{trial}/{name}".rstrip("/")
        self.bucket.move(place, target)
        return f"{self.bucket.address}/{target}"

    def remove_partial(self) -> None:
        """Do nothing: a directory without its manifest does not count, and its name is never used again."""

    def keep(self, trial: str, file: Path) -> None:
        """Upload a file."""
        self.bucket.write(f"{trial}/{file.name}", file.read_bytes())

    def close(self) -> None:
        """Release the claim."""
        if self.claim is not None:
            self.claim.release()

    def _entry(self, trial: str, name: str) -> Entry | None:
        """Return the checkpoint with a directory's name; ``None`` if the name is not of a checkpoint."""
        stem, _, digits = name.partition("-")
        epoch = epoch_of(stem)
        if epoch is None or re.fullmatch("[0-9a-f]{8}", digits) is None:
            return None
        return Entry(trial, name, epoch, f"{self.bucket.address}/{trial}/{name}")

    def _upload(self, directory: Path, trial: str, epoch: int) -> None:
        self.bucket.put(directory, f"{trial}/epoch_{epoch:04d}-{secrets.token_hex(4)}")

    def _check_claim(self) -> None:
        if self.claim is not None:
            self.claim.check()


@lru_cache(maxsize=1)
def actor_scratch() -> Path:
    """Return a folder of this process alone, and remove the folders of processes that were killed."""
    remove_abandoned(SCRATCH)
    own = make_directory(SCRATCH)
    # The folder's mark stays open, and so locked, for as long as the process lives.
    mark_directory(own, "")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _scratch_of(trial: str) -> Path:
    """Return an empty place for a checkpoint of a trial, on the disk of this machine."""
    folder = actor_scratch() / trial
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _key(entry: Entry) -> str:
    return f"{entry.trial}/{entry.name}"
