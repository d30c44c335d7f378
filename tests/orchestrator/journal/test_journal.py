"""The journal: what was written is read back, a torn end is cut off, and damage elsewhere has a name."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.doctor.experiment import check_experiment
from orchestrator.journal.journal import Journal, JournalError, JournalGoneError, read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import AlreadyRunningError
from orchestrator.tracking.address import default_uri
from tests.support.long_journals import write_journal
from tests.support.records import append

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def write(path: Path, count: int) -> list[bytes]:
    journal = Journal(path)
    for number in range(count):
        journal.append("event", trial="a", epoch=number + 1, metrics={"val/rsum": 0.1 * number})
    journal.close()
    return path.read_bytes().splitlines(keepends=True)


@given(events=st.lists(st.dictionaries(st.text("abc", min_size=1), JSON, max_size=3), max_size=5))
def test_reading_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, events: list[dict]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(path)
    written = [journal.append("event", fields=event) for event in events]
    journal.close()
    assert read_journal(path) == written
    assert [record["fields"] for record in written] == events
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == list(range(len(events)))


def test_the_records_of_a_journal_are_its_lines(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "search", 12)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    records = [record.to_dict() for record in read_journal(path)]
    # The first line lacks keys that older versions did not write.
    assert records[1:] == [{name: line[name] for name in line if name != "crc"} for line in lines[1:]]
    assert records[0].items() >= {name: lines[0][name] for name in lines[0] if name != "crc"}.items()


def test_every_torn_end_is_cut_off_and_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = write(path, 3)
    for kept in range(len(lines[2])):
        path.write_bytes(b"".join(lines[:2]) + lines[2][:kept])
        assert len(read_journal(path)) == 2
        journal = Journal(path)
        assert journal.torn == (kept > 0)
        journal.append("event", trial="a", epoch=9)
        journal.close()
        assert [record["epoch"] for record in read_journal(path)] == [1, 2, 9]


@pytest.mark.parametrize("line", [0, 1])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda line: line.replace(b'"val/rsum"', b'"val/rsun"'), id="one letter"),
        pytest.param(lambda line: b"", id="line lost"),
        pytest.param(lambda line: line + line, id="line twice"),
        pytest.param(lambda line: line[:-2] + b"\n", id="line cut"),
        pytest.param(lambda line: b"\0" * len(line), id="zeros"),
    ],
)
def test_damage_before_the_end_is_named_and_nothing_is_changed(tmp_path: Path, line: int, damage) -> None:
    path = tmp_path / "journal.jsonl"
    lines = write(path, 4)
    lines[line] = damage(lines[line])
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match=r"journal\.jsonl: line \d: damaged"):
        Journal(path)
    with pytest.raises(JournalError, match="damaged"):
        read_journal(path)
    assert path.read_bytes() == b"".join(lines)


def test_a_value_that_is_no_number_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append("event", metrics={"val/rsum": float("nan")})
    journal.append("event", epoch=1)
    journal.close()
    assert [record["n"] for record in read_journal(tmp_path / "journal.jsonl")] == [0]


def test_a_full_disk_leaves_whole_records_and_writing_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 2)
    journal = Journal(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        for _ in range(2):
            with pytest.raises(OSError, match="File too large"):
                journal.append("event", epoch=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    journal.append("event", epoch=4)
    journal.close()
    assert [record["epoch"] for record in read_journal(path)] == [1, 2, 4]


def test_a_missing_journal_has_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="orchestrator search"):
        read_journal(tmp_path / "journal.jsonl")


WRITE = """
import sys
from pathlib import Path
from orchestrator.journal.journal import Journal
journal = Journal(Path(sys.argv[1]))
print("writes", flush=True)
sys.stdin.read()
"""


@pytest.mark.proof
def test_without_its_lock_file_a_journal_still_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    command = [sys.executable, "-c", WRITE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writes\n"
        with pytest.raises(AlreadyRunningError, match="another process writes it") as refusal:
            Journal(path)
        assert refusal.value.exit_code == 3
        with pytest.raises(AlreadyRunningError):
            check_experiment(tmp_path, default_uri(tmp_path), repair=True)
        writer.kill()
    Journal(path).close()


@pytest.mark.parametrize("change", ["removed", "moved", "replaced"])
def test_a_journal_that_is_no_longer_in_its_place_gets_no_record(tmp_path: Path, change: str) -> None:
    ledger = Ledger(tmp_path / "journal.jsonl")
    append(ledger, "limit_noted", message="")
    if change == "removed":
        ledger.path.unlink()
    else:
        ledger.path.rename(tmp_path / "former.jsonl")
    if change == "replaced":
        ledger.path.write_text("")
    for _ in range(2):
        with pytest.raises(JournalGoneError, match=r"journal\.jsonl: was removed, moved or replaced"):
            append(ledger, "limit_noted", message="")
    assert not ledger.path.exists() or ledger.path.read_text() == ""
    ledger.close()
