"""Whose checkpoints in a bucket are: an object there names the driver that writes them, as a lock file does on a disk.

A bucket has no locks that go with their process. A claim is believed until its driver has let go of it, or is known to
be gone: because it ran in the same directory, whose lock a second driver could not hold beside it, or on this machine,
which does not know its process any more.
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
"""Of the object beside the trials' checkpoints; of a folder's file as well."""

RELEASE_SECONDS = 10.0
"""How long the end of a search waits for a store that does not answer."""


class ClaimLostError(RuntimeError):
    """Another driver has claimed the checkpoints; no mistake of the trial that notices it."""


@dataclass(frozen=True)
class Claim:
    """A driver's claim to the checkpoints in a store.

    Attributes:
        store: Under which they lie.
        token: What the driver wrote there, and nobody else knows.
    """

    store: ObjectStore
    token: str

    @classmethod
    def make(cls, store: ObjectStore, directory: Path) -> "Claim":
        """Claim a store for the driver of an experiment's directory, whose lock this process holds.

        Raises:
            AlreadyRunningError: If another driver has claimed it that may live.
        """
        holder = _read(store)
        if holder and _may_live(holder, directory):
            raise AlreadyRunningError(_refusal(store, holder))
        claim = cls(store, secrets.token_hex(16))
        told = {**describe_holder(None), "directory": str(directory), "token": claim.token}
        store.write(CLAIM_FILE, json.dumps(told).encode())
        # Of two drivers that saw no claim, the one that wrote first finds the claim of the other.
        try:
            claim.check()
        except ClaimLostError as error:
            raise AlreadyRunningError(str(error)) from None
        return claim

    def check(self) -> None:
        """Make sure that no other driver has claimed the store since.

        Raises:
            ClaimLostError: If one has, or the claim was let go of.
        """
        holder = _read(self.store)
        if holder.get("token") != self.token:
            by = f"process {holder['pid']} on {holder['host']}" if holder else "nobody"
            raise ClaimLostError(f"{self.store.address}: is claimed by another driver now: {by}")

    def release(self) -> None:
        """Let go of the store, unless it is another driver's by now."""
        store = replace(self.store, patience=RELEASE_SECONDS)
        # Where the store does not answer, the claim stays, which is in the way of no start in the same directory.
        with suppress(OSError):
            if _read(store).get("token") == self.token:
                store.remove(CLAIM_FILE)


def _read(store: ObjectStore) -> Mapping[str, Any]:
    """Return what the claim says; empty where there is none, or none that can be read."""
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
