"""Paths in messages are as short as they can be typed."""

from pathlib import Path

import pytest

from orchestrator.text.terminal import path_text


@pytest.fixture
def deep_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "researcher"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_a_path_below_the_working_directory_is_relative(deep_folder: Path) -> None:
    assert path_text(deep_folder / "runs" / "flickr8k") == "runs/flickr8k"
    assert path_text(Path("runs")) == "runs"


def test_the_parent_of_the_working_directory_is_relative(deep_folder: Path) -> None:
    assert path_text(deep_folder.parent / "runs") == "../runs"


@pytest.mark.usefixtures("deep_folder")
def test_a_folder_far_away_is_absolute() -> None:
    assert path_text(Path("/runs")) == "/runs"
