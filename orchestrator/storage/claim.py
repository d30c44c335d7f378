"""Which driver writes the checkpoints in a bucket: an object beside them names the driver, like a lock file on a disk.

A bucket has no locks that end with their process. A claim holds until its driver has released it, or is known to be
gone: because the driver ran in the same directory, whose lock this process holds now, or on this machine, which has no
such process any more.
"""

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from msgspec import structs

from orchestrator.journal.lock import AlreadyRunningError, Holder, boot_id
from orchestrator.storage.bucket import ObjectStore
from trainables.files import parse_state

CLAIM_FILE = ".driver"
"""Name of the object beside the checkpoints in a bucket, and of the file beside the checkpoints in a folder."""

RELEASE_SECONDS = 10.0
"""Seconds that the end of a search waits for a store that does not answer."""


class ClaimLostError(RuntimeError):
    """Another driver has claimed the checkpoints; the trial that notices it has not failed itself."""


@dataclass(frozen=True)
class Claim:
    """A driver's claim to the checkpoints in a store.

    Attributes:
        store: The part of a bucket in which the checkpoints lie.
        token: Random digits that the driver wrote there, and that no other driver knows.
    """

    store: ObjectStore
    token: str

    @classmethod
    def make(cls, store: ObjectStore, directory: Path) -> "Claim":
        """Claim a store for the driver of an experiment's directory, whose lock this process holds.

        Raises:
            AlreadyRunningError: If the store is claimed by another driver that may be alive.
        """
        former = _read(store)
        if former is not None and former.may_live(directory):
            raise AlreadyRunningError(_refusal(store, former))
        claim = cls(store, secrets.token_hex(16))
        ours = _Claimant(Holder.of_this_process(), str(directory), claim.token)
        store.write(CLAIM_FILE, json.dumps(ours.to_dict()).encode())
        # Of two drivers that saw no claim, the driver that wrote first finds the claim of the other driver.
        try:
            claim.check()
        except ClaimLostError as error:
            raise AlreadyRunningError(str(error)) from None
        return claim

    def check(self) -> None:
        """Make sure that no other driver has claimed the store since.

        Raises:
            ClaimLostError: If another driver has claimed the store, or this claim was released.
        """
        claimant = _read(self.store)
        if claimant is None or claimant.token != self.token:
            by = "nobody" if claimant is None else claimant.holder
            raise ClaimLostError(f"{self.store.address}: is claimed by another driver now: {by}")

    def release(self) -> None:
        """Release the claim, unless another driver has claimed the store by now."""
        store = replace(self.store, patience=RELEASE_SECONDS)
        # If the store does not answer, the claim stays; the next start in the same directory takes it over.
        with suppress(OSError):
            claimant = _read(store)
            if claimant is not None and claimant.token == self.token:
                store.remove(CLAIM_FILE)


@dataclass(frozen=True)
class _Claimant:
    """The driver that a claim names.

    Attributes:
        holder: Process of the driver.
        directory: The directory of the driver's experiment.
        token: See ``Claim``.
    """

    holder: Holder
    directory: str
    token: str

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the claim."""
        return {**structs.asdict(self.holder), "directory": self.directory, "token": self.token}

    def may_live(self, directory: Path) -> bool:
        """Say whether the driver may be alive, where this process holds the lock of ``directory``."""
        if not self.holder.is_here:
            return True
        if self.directory == str(directory) or self.holder.boot_id != boot_id():
            return False
        return psutil.pid_exists(self.holder.pid)


def _read(store: ObjectStore) -> _Claimant | None:
    """Return the claimant of a store; ``None`` if there is no claim, or if the claim cannot be read."""
    try:
        found = parse_state(store.read(CLAIM_FILE))
    except (FileNotFoundError, ValueError):
        return None
    holder = Holder.parse(found)
    if holder is None or not found.keys() >= {"directory", "token"}:
        return None
    return _Claimant(holder, str(found["directory"]), str(found["token"]))


def _refusal(store: ObjectStore, claimant: _Claimant) -> str:
    place = store.address.partition("?")[0]
    return (
        f"{place}: {claimant.holder} writes its checkpoints there, since {claimant.holder.started}, "
        f"from {claimant.directory}; if it is gone from there, remove {place}/{CLAIM_FILE}"
    )
