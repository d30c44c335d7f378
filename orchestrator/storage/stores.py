"""Where checkpoints lie, a folder or a part of a bucket, and how one driver at a time claims the place.

A folder is of this machine, or one that all nodes reach under the same path. In a bucket, a checkpoint is written to a
local folder first, then uploaded, and only then reported. An object beside the checkpoints names the driver, like a
lock file on a disk. A bucket has no locks that end with their process. A claim holds until its driver has released it,
or is known to be gone. A driver is gone that ran in the same directory, whose lock this process holds now. So is a
driver of this machine whose process does not exist any more.
"""

import atexit
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

import msgspec
import psutil

from orchestrator.journal.lock import (
    AlreadyRunningError,
    Holder,
    boot_id,
    make_directory,
    mark_directory,
    remove_abandoned,
)
from orchestrator.storage.bucket import ObjectStore, StorageError
from orchestrator.storage.checkpoints import KEPT, Checkpoints, Entry
from orchestrator.storage.set_aside import FOLDER, move_aside
from trainables.checkpoint import MANIFEST, EpochReport, epoch_of, list_epochs, list_partial, save_epoch
from trainables.files import lock_file, write_whole

CLAIM_FILE = ".driver"
"""Name of the object beside the checkpoints in a bucket, and of the file beside the checkpoints in a folder."""

RELEASE_SECONDS = 10.0
"""Seconds that the end of a search waits for a store that does not answer."""


class ClaimLostError(RuntimeError):
    """Another driver has claimed the checkpoints; the trial that notices it has not failed itself."""


@dataclass(frozen=True)
class FolderStore(Checkpoints):
    """Each checkpoint is ``TRIAL/epoch_0007`` of an absolute path.

    ``token`` are random digits that the driver wrote into the folder. By it, another node recognises the folder, and an
    actor that has outlived its driver notices that another driver has claimed it. Empty: not looked at.
    """

    trials: Path
    token: str = ""

    @classmethod
    def claimed(cls, trials: Path) -> "FolderStore":
        """Mark a folder as this driver's: no actor that another driver sent writes there from now on."""
        token = secrets.token_hex(16)
        with (trials / CLAIM_FILE).open("a+", encoding="ascii") as file:
            # This call waits for an actor that is giving a checkpoint its name.
            lock_file(file, fcntl.LOCK_EX, file.name)
            file.truncate(0)
            file.write(token)
        return cls(trials, token)

    def entries(self, trial: str | None = None) -> list[Entry]:
        """List the folder of a trial, or of each trial."""
        return [
            Entry(folder.name, path.name, epoch_of(path.name) or 0, str(path))
            for folder in self._folders(trial)
            for path in list_epochs(folder)
        ]

    def fetch(self, entry: Entry) -> Path:
        """Return the checkpoint itself."""
        return self.trials / entry.trial / entry.name

    def find(self, trial: str) -> tuple[Path | None, tuple[str, ...]]:
        """Return the newest undamaged checkpoint and a line for each newer checkpoint, if the folder is the driver's.

        Raises:
            StorageError: If this process sees another folder than its driver.
            ClaimLostError: If another driver has claimed the folder.
        """
        self._check()
        return super().find(trial)

    def save(self, trial: str, report: EpochReport) -> None:
        """Write a folder aside; the claim is held while the folder gets its name and older folders are removed."""
        # The claim is looked at before as well, so that an actor that is too late leaves nothing half written.
        self._check()
        save_epoch(self.trials / trial, report, KEPT, self._undisputed())

    def delete(self, entry: Entry) -> None:
        """Remove a folder as far as the file system lets it be removed."""
        shutil.rmtree(self.fetch(entry), ignore_errors=True)

    def set_aside(self, place: str, occasion: str) -> str:
        """Rename a folder."""
        return str(move_aside(self.trials / place, self.trials.parent, occasion))

    def rewind(self, epochs: Mapping[str, int], ended: Collection[str] = ()) -> list[str]:
        """Set aside what is newer than the journal, and remove what killed processes had half written."""
        self.remove_partial()
        return super().rewind(epochs, ended)

    def prune(self, trial: str) -> None:
        """Keep the newest checkpoint of an ended trial; remove also what dead processes have half written."""
        super().prune(trial)
        self.remove_partial(trial)

    def partial(self, trial: str | None = None) -> list[Path]:
        """Return the directories of checkpoints that are half written, of a trial or of all."""
        return [path for folder in self._folders(trial) for path in list_partial(folder)]

    def remove_partial(self, trial: str | None = None) -> None:
        """Remove the directories that ``partial`` lists."""
        for path in self.partial(trial):
            # A directory to which a living process writes may resist.
            shutil.rmtree(path, ignore_errors=True)

    def _folders(self, trial: str | None) -> list[Path]:
        return sorted(self.trials.glob("*/")) if trial is None else [self.trials / trial]

    def keep(self, trial: str, file: Path) -> None:
        """Copy a file into the folder of a trial, unless the file was made there."""
        target = self.trials / trial / file.name
        if target != file:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, file.read_bytes())

    def close(self) -> None:
        """Do nothing: the claim of the next driver replaces this claim."""

    def _check(self) -> None:
        with self._undisputed():
            pass

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
            lock_file(file, fcntl.LOCK_SH, file.name)
            if file.read() != self.token:
                raise ClaimLostError(f"{self.trials}: another driver has claimed this folder")
            yield


class BucketClaim(Holder, frozen=True):
    """A driver's claim to the checkpoints in a part of a bucket, as the driver wrote it there.

    ``directory`` is that of the driver's experiment; ``token`` are random digits that no other driver knows.
    """

    directory: str
    token: str

    @classmethod
    def read(cls, bucket: ObjectStore) -> "BucketClaim | None":
        """Return the claim to a part of a bucket; ``None`` if there is none, or it cannot be read."""
        with suppress(FileNotFoundError):
            return cls.parse(bucket.read(CLAIM_FILE))
        return None

    def may_live(self, directory: Path) -> bool:
        """Say whether the driver may be alive, where this process holds the lock of ``directory``."""
        if not self.is_here:
            return True
        if self.directory == str(directory) or self.boot_id != boot_id():
            return False
        return psutil.pid_exists(self.pid)


_WHOLE = re.compile(rf"([^/]+)/(epoch_([0-9]{{4,}})-[0-9a-f]{{8}})/{re.escape(MANIFEST)}")
"""Path of a checkpoint's manifest in a bucket, of which the parts are trial, name and epoch."""

SCRATCH = "actors-"
"""Kind of the scratch directories in which actors write checkpoints before the upload."""


@dataclass(frozen=True)
class BucketStore(Checkpoints):
    """Each checkpoint is ``TRIAL/epoch_0007-`` and eight random digits.

    The digits keep an actor that was given up but still lives from spoiling the checkpoints of its successor. ``token``
    is that of the driver's claim.
    """

    bucket: ObjectStore
    token: str

    @classmethod
    def claimed(cls, bucket: ObjectStore, directory: Path) -> "BucketStore":
        """Claim a part of a bucket for the driver of an experiment's directory, whose lock this process holds.

        Raises:
            AlreadyRunningError: If another driver, which may be alive, has claimed it.
        """
        former = BucketClaim.read(bucket)
        if former is not None and former.may_live(directory):
            place = bucket.address.partition("?")[0]
            raise AlreadyRunningError(
                f"{place}: {former} writes its checkpoints there, since {former.started}, "
                f"from {former.directory}; if it is gone from there, remove {place}/{CLAIM_FILE}"
            )
        holder, token = msgspec.structs.asdict(Holder.of_this_process()), secrets.token_hex(16)
        bucket.write(CLAIM_FILE, msgspec.json.encode(BucketClaim(**holder, directory=str(directory), token=token)))
        made = cls(bucket, token)
        # Of two drivers that saw no claim, the driver that wrote first finds the claim of the other driver.
        try:
            made._check()
        except ClaimLostError as error:
            raise AlreadyRunningError(str(error)) from None
        return made

    def entries(self, trial: str | None = None) -> list[Entry]:
        """List the whole directories, with one request."""
        start, entries = "" if trial is None else f"{trial}/", []
        for path in self.bucket.listing(trial or ""):
            if whole := _WHOLE.fullmatch(start + path):
                owner, name, epoch = whole.groups()
                entries.append(Entry(owner, name, int(epoch), f"{self.bucket.address}/{owner}/{name}"))
        return sorted(entries, key=attrgetter("trial", "epoch", "name"))

    def fetch(self, entry: Entry) -> Path:
        """Download a directory into the scratch folder of this process."""
        target = _scratch_of(entry.trial) / f"epoch_{entry.epoch:04d}"
        with suppress(FileNotFoundError):
            self.bucket.get(_key(entry), target)
        return target

    def save(self, trial: str, report: EpochReport) -> None:
        """Write a folder on this machine, upload the folder, then delete older checkpoints."""
        self._check()
        directory = save_epoch(_scratch_of(trial), report)
        self.bucket.put(directory, f"{trial}/epoch_{report.epoch:04d}-{secrets.token_hex(4)}")
        for old in self.entries(trial)[:-KEPT]:
            self.delete(old)

    def delete(self, entry: Entry) -> None:
        """Delete a directory."""
        self.bucket.delete(_key(entry))

    def set_aside(self, place: str, occasion: str) -> str:
        """Copy objects within the bucket, then delete them at their former place."""
        # Deeper than checkpoints lie, so that no listing takes the copy for a checkpoint of a trial.
        target = f"{FOLDER}/{occasion}/{place}"
        self.bucket.move(place, target)
        return f"{self.bucket.address}/{target}"

    def keep(self, trial: str, file: Path) -> None:
        """Upload a file."""
        self.bucket.write(f"{trial}/{file.name}", file.read_bytes())

    def close(self) -> None:
        """Release the claim, unless another driver has claimed the place by now."""
        patient = replace(self, bucket=replace(self.bucket, patience=RELEASE_SECONDS))
        # If the store does not answer, the claim stays; the next start in the same directory takes it over.
        with suppress(OSError, ClaimLostError):
            patient._check()
            patient.bucket.remove(CLAIM_FILE)

    def _check(self) -> None:
        """Make sure that no other driver has claimed the place since, and that this claim was not released."""
        newest = BucketClaim.read(self.bucket)
        if newest is None or newest.token != self.token:
            raise ClaimLostError(f"{self.bucket.address}: is claimed by another driver now: {newest or 'nobody'}")


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
