"""The state of an experiment, read from its directory."""

from pathlib import Path

import pytest

from orchestrator.journal.history import NoStartError
from orchestrator.journal.journal import Journal
from orchestrator.journal.reader import read_history


def test_what_a_start_lacks_is_said_with_the_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("experiment_started", experiment={"seed": 1}, data={}, environment={})
    journal.close()
    history = read_history(tmp_path)
    assert not history.finished
    with pytest.raises(NoStartError, match=r"journal\.jsonl: has no name, .* restore"):
        _ = history.name
