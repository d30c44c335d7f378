"""The revision of code that lies in no repository, such as that of an image, comes from its environment."""

from pathlib import Path

import pytest

import orchestrator
from orchestrator.machines import cluster


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param("abc123", "abc123", id="named"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="none"),
    ],
)
def test_outside_a_repository(
    given: str | None, found: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(orchestrator, "__file__", str(tmp_path / "orchestrator" / "__init__.py"))
    monkeypatch.delenv(cluster.REVISION, raising=False)
    if given is not None:
        monkeypatch.setenv(cluster.REVISION, given)
    assert cluster.git_revision() == found


def test_a_repository_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cluster.REVISION, "abc123")
    assert cluster.git_revision() != "abc123"
