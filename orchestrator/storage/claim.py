"""Which driver writes the checkpoints in a bucket: an object beside them names the driver, like a lock file on a disk.

A bucket has no locks that end with their process. A claim holds until its driver has released it, or is known to be
gone: because the driver ran in the same directory, whose lock this process holds now, or on this machine, which has no
such process any more.
"""

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from orchestrator.journal.lock import AlreadyRunningError, boot_id, describe_holder, is_here
from orchestrator.storage.bucket import ObjectStore
from trainables.json_files import parse_state

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
        holder = _read(store)
        if holder and _may_live(holder, directory):
            raise AlreadyRunningError(_refusal(store, holder))
        claim = cls(store, secrets.token_hex(16))
        told = {**describe_holder(None), "directory": str(directory), "token": claim.token}
        store.write(CLAIM_FILE, json.dumps(told).encode())
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
        holder = _read(self.store)
        if holder.get("token") != self.token:
            by = f"process {holder['pid']} on {holder['host']}" if holder else "nobody"
            raise ClaimLostError(f"{self.store.address}: is claimed by another driver now: {by}")

    def release(self) -> None:
        """Release the claim, unless another driver has claimed the store by now."""
        store = replace(self.store, patience=RELEASE_SECONDS)
        # If the store does not answer, the claim stays; the next start in the same directory takes it over.
        with suppress(OSError):
            if _read(store).get("token") == self.token:
                store.remove(CLAIM_FILE)


def _read(store: ObjectStore) -> Mapping[str, Any]:
    """Return the content of the claim; empty if there is no claim, or it cannot be read."""
    try:
        found = parse_state(store.read(CLAIM_FILE))
    except (FileNotFoundError, ValueError):
        return {}
    known = isinstance(found, dict) and found.keys() >= {"pid", "host", "boot_id", "started", "directory", "token"}
    return found if known else {}


def _may_live(holder: Mapping[str, Any], directory: Path) -> bool:
    if not is_here(holder):
        return True
    if holder["directory"] == str(directory) or holder["boot_id"] != boot_id():
        return False
    return psutil.pid_exists(holder["pid"])


def _refusal(store: ObjectStore, holder: Mapping[str, Any]) -> str:
    place = store.address.partition("?")[0]
    return (
        f"{place}: process {holder['pid']} on {holder['host']} writes its checkpoints there, since "
        f"{holder['started']}, from {holder['directory']}; if it is gone from there, remove {place}/{CLAIM_FILE}"
    )
