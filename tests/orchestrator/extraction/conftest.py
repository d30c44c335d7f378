from pathlib import Path

import pytest

from tests.support.photos import write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A dataset of photographs."""
    return write_photos(tmp_path / "data" / "photos")
