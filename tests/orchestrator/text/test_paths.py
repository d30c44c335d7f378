"""Paths in messages are as short as they can be typed."""

from pathlib import Path

import pytest

from orchestrator.text.terminal import path_text


@pytest.mark.parametrize(
    ("path", "shown"),
    [("runs/flickr8k", "runs/flickr8k"), ("../runs", "../runs"), ("/runs", "/runs")],
    ids=["below the working directory", "beside it", "far away"],
)
def test_a_path_is_relative_where_that_is_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, shown: str
) -> None:
    folder = tmp_path / "home" / "researcher"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert path_text((folder / path).resolve()) == shown
    assert path_text(Path("runs")) == "runs"
