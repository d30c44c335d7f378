"""The checkpoints of a search's trials: in a folder, or in a bucket where the nodes share no disk.

Whoever runs a trial asks here for its newest good checkpoint and hands in each new one; a checkpoint that ``save``
returned from outlives the process and, in a bucket or on a shared disk, the machine.
"""

import atexit
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from orchestrator.journal.scratch import make, mark, remove_abandoned
from orchestrator.storage.bucket import ObjectStore, StorageError
from orchestrator.storage.claim import CLAIM_FILE, Claim, ClaimLostError
from trainables.checkpoint import epoch_of, find_damage, list_epochs, list_partial, replace_epochs, save_epoch
from trainables.errors import CheckpointError
from trainables.files import aside, take_place, write_whole
from trainables.reports import EpochReport

KEPT = 3
"""Checkpoints of a running trial, because the newest may be damaged by what ended its process."""

SCRATCH = "actors-"
"""Kind of the scratch directories in which actors write what goes into a bucket."""


@dataclass(frozen=True)
class Found:
    """What a trial goes on from.

    Attributes:
        path: Local directory with its newest undamaged checkpoint; ``None`` where it has none.
        damage: What is wrong with the newer ones, which were passed over, a line each.
    """

    path: Path | None
    damage: tuple[str, ...] = ()


class Checkpoints(Protocol):
    """Where the checkpoints of trials lie, by the trials' ids; pickled once and sent to every actor."""

    def find(self, trial: str) -> Found:
        """Return what a trial goes on from, and what cannot be used any more."""
        ...

    def latest(self, trial: str) -> Path | None:
        """Return a local directory with the newest undamaged checkpoint of a trial, or ``None`` where it has none."""
        ...

    def save(self, trial: str, report: EpochReport) -> None:
        """Keep the checkpoint of a report; it is safe when this returns."""
        ...

    def adopt(self, trial: str, source: str, epoch: int) -> None:
        """Put another trial's checkpoint of an epoch in the place of all that a trial has.

        Where the source has none any more, the trial is left without: its config holds all that it takes to train it.
        """
        ...

    def prune(self, trial: str) -> None:
        """Remove the checkpoints of an ended trial but the newest, which holds its best model."""
        ...

    def is_empty(self) -> bool:
        """Say whether no trial has a checkpoint."""
        ...

    def rewind(self, epochs: Mapping[str, int], ended: Collection[str] = ()) -> None:
        """Remove what goes beyond the journal, which may have lost its end with a machine, and what is not needed.

        Args:
            epochs: Id of each trial -> its newest epoch in the journal. A checkpoint may be one epoch ahead of that;
                from a later one, a trial would go on without ever reporting the epochs between.
            ended: Trials of which the newest is enough; who ended them may have been killed before it could prune.
        """
        ...

    def bring(self, trial: str, target: Path) -> Path:
        """Return the newest undamaged checkpoint of a trial in a folder that outlives the cluster.

        Raises:
            CheckpointError: If it has none.
        """
        ...

    def keep(self, trial: str, file: Path) -> None:
        """Keep a small file beside a trial's checkpoints, whole or not at all, over one of its name."""
        ...

    def close(self) -> None:
        """Let go of them: no actor of this driver saves any more, and another driver may claim them."""
        ...


@dataclass(frozen=True)
class FolderCheckpoints:
    """Checkpoints in a folder: of this machine, or one that all nodes reach under the same path.

    Attributes:
        trials: Has, or gets, a folder for each trial; absolute.
        token: What the driver wrote into the folder, by which another node knows the same folder, and an actor that
            has outlived its driver that another has taken over; empty: not looked at.
    """

    trials: Path
    token: str = ""

    @classmethod
    def claimed(cls, trials: Path) -> "FolderCheckpoints":
        """Mark a folder as that of this driver: nobody whom another one sent writes there from now on."""
        token = secrets.token_hex(16)
        with (trials / CLAIM_FILE).open("a+", encoding="ascii") as file:
            # Waits for an actor that is giving a checkpoint its name.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(token)
        return cls(trials, token)

    def find(self, trial: str) -> Found:
        """See ``Checkpoints``."""
        with self._undisputed():
            pass
        return _newest_whole(self.trials / trial)

    def latest(self, trial: str) -> Path | None:
        """See ``Checkpoints``."""
        return self.find(trial).path

    def save(self, trial: str, report: EpochReport) -> None:
        """See ``Checkpoints``."""
        # Looked at before as well, so that who is too late writes nothing that would be left half written.
        with self._undisputed():
            pass
        save_epoch(self.trials / trial, report, KEPT, self._undisputed())

    def adopt(self, trial: str, source: str, epoch: int) -> None:
        """See ``Checkpoints``."""
        with self._undisputed():
            replace_epochs(self.trials / trial, self.trials / source / f"epoch_{epoch:04d}")

    def prune(self, trial: str) -> None:
        """See ``Checkpoints``."""
        for old in list_epochs(self.trials / trial)[:-1]:
            shutil.rmtree(old, ignore_errors=True)

    def is_empty(self) -> bool:
        """See ``Checkpoints``."""
        return not any(list_epochs(folder) for folder in self.trials.glob("*/"))

    def rewind(self, epochs: Mapping[str, int], ended: Collection[str] = ()) -> None:
        """See ``Checkpoints``; what a process that was killed while writing left behind goes as well."""
        for path in self.ahead(epochs):
            # What a living process still writes may not let itself be removed; a whole one must go.
            shutil.rmtree(path, ignore_errors=path.name.startswith("."))
        for trial in ended:
            present = list_epochs(self.trials / trial)
            # The newest may be damaged by what ended the process that should have pruned.
            whole = _newest_whole(self.trials / trial).path if len(present) > 1 else None
            for old in present[: present.index(whole)] if whole else ():
                shutil.rmtree(old, ignore_errors=True)

    def ahead(self, epochs: Mapping[str, int]) -> list[Path]:
        """Return what ``rewind`` removes of trials that go on: half written, or beyond what the journal knows."""
        folders = sorted(self.trials.glob("*/"))
        known = [path for folder in folders for path in list_epochs(folder)]
        partial = [path for folder in folders for path in list_partial(folder)]
        return partial + [path for path in known if _is_ahead(path.parent.name, path.name, epochs)]

    def bring(self, trial: str, target: Path) -> Path:
        """See ``Checkpoints``."""
        return _brought(self.latest(trial), target)

    def keep(self, trial: str, file: Path) -> None:
        """See ``Checkpoints``; where the file lies there already, it stays as it is."""
        target = self.trials / trial / file.name
        if target != file:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, file.read_bytes())

    def close(self) -> None:
        """See ``Checkpoints``; the next driver's claim takes the place of this one."""

    @contextmanager
    def _undisputed(self) -> Iterator[None]:
        """Keep other drivers from claiming the folder, after a look whether one has.

        Raises:
            StorageError: If the folder is not that of the driver that sent us.
            ClaimLostError: If it is no longer.
        """
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


@dataclass(frozen=True)
class StoredCheckpoints:
    """Checkpoints in a bucket: written to a local folder first, then uploaded, and only then reported.

    A directory there is named ``epoch_0007-`` and eight random digits: an actor that was given up but still lives
    cannot spoil what its successor writes.

    Attributes:
        store: Under which each trial has a directory.
        claim: Of the driver; ``None``: not looked at.
    """

    store: ObjectStore
    claim: Claim | None = None

    @classmethod
    def claimed(cls, store: ObjectStore, directory: Path) -> "StoredCheckpoints":
        """Claim a store for the driver of an experiment's directory.

        Raises:
            AlreadyRunningError: If another driver has claimed it that may live.
        """
        return cls(store, Claim.make(store, directory))

    def find(self, trial: str) -> Found:
        """See ``Checkpoints``."""
        root = actor_scratch() / trial
        shutil.rmtree(root, ignore_errors=True)
        passed_over: list[str] = []
        for name in reversed(self._names(trial)):
            directory = root / name.partition("-")[0]
            with suppress(FileNotFoundError):
                self.store.get(f"{trial}/{name}", directory)
            damage = find_damage(directory)
            if damage is None:
                return Found(directory, tuple(passed_over))
            where = f"{self.store.address}/{trial}/{name}"
            passed_over.append(damage.replace(str(directory), where))
            shutil.rmtree(directory, ignore_errors=True)
        return Found(None, tuple(passed_over))

    def latest(self, trial: str) -> Path | None:
        """See ``Checkpoints``."""
        return self.find(trial).path

    def save(self, trial: str, report: EpochReport) -> None:
        """See ``Checkpoints``."""
        self._check_claim()
        root = actor_scratch() / trial
        shutil.rmtree(root, ignore_errors=True)
        directory = save_epoch(root, report)
        self.store.put(directory, f"{trial}/{directory.name}-{secrets.token_hex(4)}")
        self._thin(trial, KEPT)

    def adopt(self, trial: str, source: str, epoch: int) -> None:
        """See ``Checkpoints``."""
        self._check_claim()
        copy = actor_scratch() / trial
        shutil.rmtree(copy, ignore_errors=True)
        for name in (name for name in self._names(source) if _epoch(name) == epoch):
            self.store.get(f"{source}/{name}", copy)
        for old in self._names(trial):
            self.store.delete(f"{trial}/{old}")
        if copy.exists():
            self.store.put(copy, f"{trial}/epoch_{epoch:04d}-{secrets.token_hex(4)}")
            shutil.rmtree(copy)

    def prune(self, trial: str) -> None:
        """See ``Checkpoints``."""
        self._thin(trial, 1)

    def is_empty(self) -> bool:
        """See ``Checkpoints``."""
        return not any(_is_stored(name) for _, name in self.store.names("", depth=2))

    def rewind(self, epochs: Mapping[str, int], ended: Collection[str] = ()) -> None:
        """See ``Checkpoints``."""
        kept: dict[str, list[str]] = {}
        for trial, name in self.store.names("", depth=2):
            if not _is_stored(name):
                continue
            if _is_ahead(trial, name, epochs):
                self.store.delete(f"{trial}/{name}")
            else:
                kept.setdefault(trial, []).append(name)
        # One listing for all, and a request only where there is something to remove.
        for trial in (trial for trial in ended if len(kept.get(trial, ())) > 1):
            # The newest may be damaged by what ended the process that should have pruned.
            whole = self.latest(trial)
            newest = 0 if whole is None else _epoch(whole.name)
            for name in kept[trial]:
                if _epoch(name) < newest:
                    self.store.delete(f"{trial}/{name}")

    def bring(self, trial: str, target: Path) -> Path:
        """See ``Checkpoints``."""
        found = _newest_whole(target).path
        newest = self._names(trial)[-1:]
        if found is not None and newest and found.name == newest[0].partition("-")[0]:
            return found
        return _brought(self.latest(trial), target)

    def keep(self, trial: str, file: Path) -> None:
        """See ``Checkpoints``."""
        self.store.write(f"{trial}/{file.name}", file.read_bytes())

    def close(self) -> None:
        """See ``Checkpoints``."""
        if self.claim is not None:
            self.claim.release()

    def _check_claim(self) -> None:
        if self.claim is not None:
            self.claim.check()

    def _names(self, trial: str) -> list[str]:
        """Return the checkpoints of a trial, oldest epoch first."""
        names = [name for (name,) in self.store.names(trial) if _is_stored(name)]
        return sorted(names, key=lambda name: (_epoch(name), name))

    def _thin(self, trial: str, kept: int) -> None:
        for name in self._names(trial)[:-kept]:
            self.store.delete(f"{trial}/{name}")


@lru_cache(maxsize=1)
def actor_scratch() -> Path:
    """Return a folder of this process alone, and remove those whose processes were killed."""
    remove_abandoned(SCRATCH)
    own = make(SCRATCH)
    # Its mark stays open, and so locked, for as long as the process lives.
    mark(own, "")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _newest_whole(root: Path) -> Found:
    """Return the newest undamaged checkpoint under a folder."""
    passed_over: list[str] = []
    for path in reversed(list_epochs(root)):
        damage = find_damage(path)
        if damage is None:
            return Found(path, tuple(passed_over))
        passed_over.append(damage)
    return Found(None, tuple(passed_over))


def _brought(found: Path | None, target: Path) -> Path:
    if found is None:
        raise CheckpointError(
            f"{target}: the winner has no good checkpoint left; restore it, or search under another name"
        )
    if found.parent == target:
        return found
    final = target / found.name
    with aside(final) as partial:
        shutil.copytree(found, partial, dirs_exist_ok=True)
        take_place(partial, final)
    return final


def _is_ahead(trial: str, name: str, epochs: Mapping[str, int]) -> bool:
    return _epoch(name) > epochs.get(trial, -1) + 1


def _is_stored(name: str) -> bool:
    """Say whether a directory of a bucket is a checkpoint, going by its name; what else lies there is left alone."""
    epoch, _, digits = name.partition("-")
    return epoch_of(epoch) is not None and re.fullmatch("[0-9a-f]{8}", digits) is not None


def _epoch(name: str) -> int:
    """Return the epoch of a checkpoint's name, in a folder or in a bucket."""
    epoch = epoch_of(name.partition("-")[0])
    assert epoch is not None
    return epoch
