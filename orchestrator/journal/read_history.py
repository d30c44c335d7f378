"""Reads the state of an experiment from its directory."""

from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal


def read_history(directory: Path) -> History:
    """Return the state of an experiment according to its journal, which another process may be writing.

    Args:
        directory: The experiment's directory.

    Raises:
        JournalError: If there is no journal, any record but the last is damaged, or a newer version wrote the journal.
    """
    path = directory / JOURNAL_FILE
    return History.of(read_journal(path), str(path))
