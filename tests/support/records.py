"""Records by their kinds and fields, for tests that write down what nobody ran."""

from typing import Any

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record, parse


def event(kind: str, **fields: Any) -> Record:
    """Return a record of a kind from its fields as JSON values."""
    return parse({"kind": kind, **fields})


def append(ledger: Ledger, kind: str, **fields: Any) -> None:
    """Write a record of a kind."""
    ledger.append(event(kind, **fields))
