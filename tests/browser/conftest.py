import os
from pathlib import Path

import pytest


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Where screenshots go: ``ORCHESTRATOR_SCREENSHOTS``, which keeps them, or a temporary folder."""
    folder = Path(os.environ.get("ORCHESTRATOR_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
