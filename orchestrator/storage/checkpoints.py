"""The checkpoints of a search's trials: from which checkpoint a trial resumes, and which are not needed any more.

The process that runs a trial asks here for the trial's newest good checkpoint, and hands in each new checkpoint. A
checkpoint that ``save`` has written outlives the process and, in a bucket or on a shared disk, the machine.
``storage.stores`` has the checkpoints in a folder and those in a bucket; this module works for both.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.storage.bucket import StorageError
from orchestrator.storage.set_aside import name_occasion
from trainables.checkpoint import EpochReport, epoch_of, find_damage, find_latest
from trainables.errors import CheckpointError
from trainables.files import aside, take_place


@dataclass(frozen=True)
class Entry:
    """A checkpoint in a store, of an epoch from 1; it may be damaged, but is not half written.

    ``name`` is that of its directory, ``address`` its place for people.
    """

    trial: str
    name: str
    epoch: int
    address: str


KEPT = 3
"""How many checkpoints a running trial keeps: the end of its process may damage the newest."""


class Checkpoints(ABC):
    """The checkpoints of trials, by the trials' ids; pickled once, and used by the driver and by all actors at once."""

    @abstractmethod
    def entries(self, trial: str | None = None) -> list[Entry]:
        """Return the checkpoints of a trial, or of all trials, the oldest epoch of each trial first."""

    @abstractmethod
    def fetch(self, entry: Entry) -> Path:
        """Return a local directory with the files of a checkpoint, valid until the next call for its trial."""

    @abstractmethod
    def save(self, trial: str, report: EpochReport) -> None:
        """Write the checkpoint of a report, then remove all checkpoints of the trial but the newest ``KEPT``.

        The checkpoint is safe when this method returns.

        Raises:
            ClaimLostError: If another driver has claimed the place.
        """

    @abstractmethod
    def delete(self, entry: Entry) -> None:
        """Remove a checkpoint, unless it is gone already."""

    @abstractmethod
    def set_aside(self, place: str, occasion: str) -> str:
        """Move files out of the way of trials, and return where they lie then, for people.

        The place is ``TRIAL`` for all files of a trial, or ``TRIAL/NAME`` for one checkpoint. The occasion names the
        folder for everything that is moved at one time.

        Raises:
            OSError: If the files cannot be moved; a ``StorageError`` is one.
        """

    @abstractmethod
    def keep(self, trial: str, file: Path) -> None:
        """Write a small file beside a trial's checkpoints, whole or not at all; a file of its name is replaced."""

    @abstractmethod
    def close(self) -> None:
        """Give up the claim: no actor of this driver saves any more, and another driver may claim the checkpoints."""

    def find(self, trial: str) -> tuple[Path | None, tuple[str, ...]]:
        """Return the checkpoint from which a trial resumes, and a line for each newer checkpoint that cannot be used.

        The checkpoint is a local directory, the newest undamaged one; ``None`` where the trial has none.
        """
        passed_over: list[str] = []
        for entry in reversed(self.entries(trial)):
            directory = self.fetch(entry)
            damage = find_damage(directory)
            if damage is None:
                return directory, tuple(passed_over)
            passed_over.append(damage.replace(str(directory), entry.address))
        return None, tuple(passed_over)

    def latest(self, trial: str) -> Path | None:
        """Return a local directory with the newest undamaged checkpoint of a trial, or ``None`` where it has none."""
        return self.find(trial)[0]

    def prune(self, trial: str) -> None:
        """Remove all checkpoints of an ended trial but the newest, which holds its best model."""
        for entry in self.entries(trial)[:-1]:
            self.delete(entry)

    def ahead(self, epochs: Mapping[str, int]) -> list[Entry]:
        """Return the checkpoints that ``rewind`` sets aside because they go beyond the journal."""
        return [entry for entry in self.entries() if _is_ahead(entry, epochs)]

    def rewind(self, epochs: Mapping[str, int], ended: Collection[str] = ()) -> list[str]:
        """Set aside checkpoints that are newer than the journal, which may have lost its end.

        Of a trial that the journal does not know at all, every file is set aside. Checkpoints of ended trials before
        the newest whole one are removed.

        Args:
            epochs: Id of each trial -> its newest epoch in the journal. A checkpoint may be one epoch ahead of the
                journal; from a later checkpoint, a trial would resume without ever reporting the epochs between.
            ended: Trials of which the newest checkpoint is enough; the process that ended them may have been killed
                before it could prune.

        Returns:
            Where each trial or checkpoint lies that was set aside.

        Raises:
            StorageError: If a checkpoint that goes beyond the journal cannot be moved.
        """
        # One listing serves all trials; further requests are sent only to move or remove checkpoints.
        kept: dict[str, list[Entry]] = {}
        beyond: dict[str, Entry] = {}
        for entry in self.entries():
            if _is_ahead(entry, epochs):
                beyond.setdefault(f"{entry.trial}/{entry.name}" if entry.trial in epochs else entry.trial, entry)
            else:
                kept.setdefault(entry.trial, []).append(entry)
        moved, occasion = [], name_occasion()
        for place, entry in beyond.items():
            try:
                moved.append(self.set_aside(place, occasion))
            except OSError as error:
                raise StorageError(
                    f"{entry.address}: is not known to the journal, and cannot be moved away: {error.strerror or error}"
                ) from None
        for trial in (trial for trial in ended if len(kept.get(trial, ())) > 1):
            # The end of the process that should have pruned may have damaged the newest checkpoint.
            whole = self.latest(trial)
            newest = 0 if whole is None else epoch_of(whole.name) or 0
            for entry in (entry for entry in kept[trial] if entry.epoch < newest):
                self.delete(entry)
        return moved

    def discard(self, trials: Iterable[str]) -> None:
        """Remove all checkpoints of these trials, whose models nobody needs any more."""
        discarded = {*trials}
        for entry in (entry for entry in self.entries() if entry.trial in discarded):
            self.delete(entry)

    def bring(self, trial: str, target: Path) -> Path:
        """Return the newest undamaged checkpoint of a trial in a folder that outlives the cluster.

        Raises:
            CheckpointError: If the trial has none.
        """
        brought, newest = find_latest(target), self.entries(trial)[-1:]
        if brought is not None and newest and epoch_of(brought.name) == newest[0].epoch:
            return brought
        checkpoint = self.latest(trial)
        if checkpoint is None:
            raise CheckpointError(
                f"{target}: the winner has no good checkpoint left; restore it, or search under another name"
            )
        if checkpoint.parent == target:
            return checkpoint
        final = target / checkpoint.name
        with aside(final) as partial:
            shutil.copytree(checkpoint, partial, dirs_exist_ok=True)
            take_place(partial, final)
        return final


def _is_ahead(entry: Entry, epochs: Mapping[str, int]) -> bool:
    return entry.epoch > epochs.get(entry.trial, -1) + 1
