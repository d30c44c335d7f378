from pathlib import Path

import pytest

from orchestrator.searches.loaded import LoadedExperiment
from tests.support.exported import write_experiment


@pytest.fixture
def found(tmp_path: Path) -> LoadedExperiment:
    """An experiment with a trial in each state, and a confirmation of one of them with two seeds."""
    return write_experiment(tmp_path / "runs" / "tiny")
