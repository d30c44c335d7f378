"""A journal that is read on while it is written: each record once, whole, in sequence, whatever happens to the file."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.journal import reader
from orchestrator.journal.journal import Journal, JournalError
from orchestrator.journal.reader import JournalReader, JournalReplacedError


def write(path: Path, count: int) -> bytes:
    with closing(Journal(path)) as journal:
        for number in range(count):
            journal.append("epoch", trial=f"a-{number}", epoch=1, metrics={"val/rsum": number / 3}, state="running")
    return path.read_bytes()


def test_nothing_is_read_where_there_is_no_journal(tmp_path: Path) -> None:
    followed = JournalReader(tmp_path / "journal.jsonl")
    assert (followed.has_news(), list(followed.read_on())) == (False, [])


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 2000), max_size=6))
def test_every_record_comes_once_however_the_file_grows(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("grows")
    content = write(folder / "whole.jsonl", 9)
    path = folder / "journal.jsonl"
    path.write_bytes(b"")
    followed = JournalReader(path)
    seen = []
    for cut in [*sorted(cuts), len(content)]:
        with path.open("r+b") as file:
            file.write(content[:cut])
        seen += list(followed.read_on())
    assert [record["trial"] for record in seen] == [f"a-{number}" for number in range(9)]
    assert followed.count == 9
    assert not followed.has_news()


def test_a_long_journal_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "journal.jsonl", 50)
    monkeypatch.setattr(reader, "PIECE", 100)
    assert [record["n"] for record in JournalReader(tmp_path / "journal.jsonl").read_on()] == list(range(50))


def test_a_torn_record_is_waited_for_and_its_successor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    content = write(path, 3)
    path.write_bytes(content[:-5])
    followed = JournalReader(path)
    assert len(list(followed.read_on())) == 2
    with closing(Journal(path)) as journal:
        journal.append("trial_started", trial="again", gpus=0.0)
    assert [record["trial"] for record in followed.read_on()] == ["again"]


def test_another_file_or_a_shorter_one_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    content = write(path, 3)
    for replace in (lambda: path.write_bytes(content[:10]), lambda: (path.unlink(), write(path, 5))):
        followed = JournalReader(path)
        list(followed.read_on())
        replace()
        assert followed.has_news()
        with pytest.raises(JournalReplacedError):
            list(followed.read_on())
        path.unlink()
        write(path, 3)


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = write(path, 3).splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"a-1", b"a-9") + lines[2])
    with pytest.raises(JournalError, match="line 2 is damaged; `orchestrator doctor"):
        list(JournalReader(path).read_on())
