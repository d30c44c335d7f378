"""Records by their kinds and fields, for tests that write down what nobody ran."""

import json
from typing import Any

import msgspec

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record, read_record


def event(kind: str, **fields: Any) -> Record:
    """Return a record of a kind from its fields as JSON values."""
    return read_record(json.dumps({"kind": kind, **fields}, default=msgspec.to_builtins).encode())


def append(ledger: Ledger, kind: str, **fields: Any) -> None:
    """Write a record of a kind."""
    ledger.append(event(kind, **fields))
