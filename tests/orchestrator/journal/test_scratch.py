"""Temporary directories: what was left behind goes, and nothing that only looks like it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.journal.lock import MARK, make_directory, mark_directory, owner_of, remove_abandoned


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which any user may write into."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def left(owner: str = "") -> Path:
    """Make a directory whose process has ended."""
    directory = make_directory("actors-")
    os.close(mark_directory(directory, owner))
    (directory / "state.pt").write_text("1")
    return directory


def test_a_directory_is_private_and_says_whose_it_is(temporary: Path) -> None:
    directory = make_directory()
    assert directory.parent == temporary
    assert directory.stat().st_mode & 0o777 == 0o700
    assert owner_of(directory) is None, "nobody has marked it"
    os.close(mark_directory(directory, "me"))
    assert owner_of(directory) == "me"
    assert [path.name for path in directory.iterdir()] == [MARK]


def test_what_ended_processes_left_goes_and_what_living_ones_hold_stays() -> None:
    abandoned, unmarked, other = left(), make_directory("actors-"), make_directory("other-")
    living = make_directory("actors-")
    held = mark_directory(living, "")
    remove_abandoned("actors-")
    assert [path.exists() for path in (abandoned, unmarked, other, living)] == [False, True, True, True]
    os.close(held)
    remove_abandoned("actors-")
    assert not living.exists()


def behind_a_link(directory: Path) -> Path:
    target = directory.parent.parent / "precious"
    directory.rename(target)
    directory.symlink_to(target)
    return target


def open_to_others(directory: Path) -> Path:
    directory.chmod(0o755)
    return directory


def without_a_mark(directory: Path) -> Path:
    (directory / MARK).rename(directory / "lock")
    return directory


def with_a_linked_mark(directory: Path) -> Path:
    (directory / MARK).rename(directory / "mark")
    (directory / MARK).symlink_to("mark")
    return directory


@pytest.mark.parametrize("change", [behind_a_link, open_to_others, without_a_mark, with_a_linked_mark])
def test_what_does_not_prove_to_be_ours_stays(change: Callable[[Path], Path]) -> None:
    directory = left("me")
    kept = change(directory)
    remove_abandoned("actors-")
    assert (kept / "state.pt").exists()
    assert owner_of(directory) is None


def test_links_within_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("1")
    directory = left()
    (directory / "link").symlink_to(tmp_path / "precious")
    remove_abandoned("actors-")
    assert not directory.exists()
    assert (tmp_path / "precious" / "file").exists()


def test_a_directory_of_another_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = left("me")
    monkeypatch.setattr("orchestrator.journal.lock.os.getuid", lambda: os.geteuid() + 1)
    remove_abandoned("actors-")
    assert directory.exists()
    assert owner_of(directory) is None
