"""The journal: what was written is read back, at once or as it grows; a torn end is cut off, other damage is named."""

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.doctor.experiment import check_experiment
from orchestrator.journal import journal
from orchestrator.journal.directory import read_history
from orchestrator.journal.journal import JournalError, JournalReader, JournalReplacedError, read_journal
from orchestrator.journal.ledger import JournalGoneError, Ledger, LeftBehindError
from orchestrator.journal.lock import AlreadyRunningError
from orchestrator.journal.records import EpochEnded, LimitNoted, Record, has_ended
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.address import default_uri
from tests.support.experiments import add_trial, make_experiment, start
from tests.support.long_journals import write_journal
from tests.support.records import append
from trainables import files
from trainables.errors import UserError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, *messages: object) -> list[bytes]:
    with closing(Ledger(path)) as ledger:
        for message in messages:
            append(ledger, "limit_noted", message=str(message))
    return path.read_bytes().splitlines(keepends=True)


def messages(records: Iterable[Record]) -> list[str]:
    return [record.message for record in records if isinstance(record, LimitNoted)]


@given(suites=st.lists(st.dictionaries(st.text("abc", min_size=1), JSON, max_size=3), max_size=5))
def test_reading_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, suites: list[dict]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    heard: list[Record] = []
    with closing(Ledger(path)) as ledger:
        ledger.listeners.append(heard.append)
        for suite in suites:
            append(ledger, "suite_started", suite=suite)
    assert read_journal(path) == heard
    assert [(record.n, record.to_dict()["suite"]) for record in heard] == list(enumerate(suites))


def test_a_long_journal_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_journal(tmp_path / "search", 12)
    whole = read_journal(path)
    monkeypatch.setattr(journal, "PIECE", 1000)
    assert read_journal(path) == whole and len(whole) == path.read_bytes().count(b"\n")


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 1000), max_size=6))
def test_each_record_comes_once_however_the_file_grows(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("grows")
    content = b"".join(write(folder / "whole.jsonl", *range(9)))
    path = folder / "journal.jsonl"
    followed = JournalReader(path)
    assert (followed.has_news(), list(followed.read_on())) == (False, [])
    path.write_bytes(b"")
    seen = []
    for cut in [*sorted(cuts), len(content)]:
        with path.open("r+b") as file:
            file.write(content[:cut])
        seen += messages(followed.read_on())
    assert seen == [str(number) for number in range(9)]
    assert (followed.count, followed.size, followed.rest, followed.has_news()) == (9, len(content), b"", False)


def test_after_an_error_of_the_disk_the_rest_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, 1, 2, 3)
    followed = JournalReader(path)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output"):
        patch.setattr(JournalReader, "_take", Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))
        list(followed.read_on())
    assert followed.has_news() and messages(followed.read_on()) == ["1", "2", "3"]


def test_every_torn_end_is_cut_off_and_writing_goes_on(path: Path) -> None:
    lines = write(path, 1, 2, 3)
    for kept in range(len(lines[2])):
        path.write_bytes(b"".join(lines[:2]) + lines[2][:kept])
        followed = JournalReader(path)
        assert (messages(followed.read_on()), followed.rest) == (["1", "2"], lines[2][:kept])
        write(path, 9)
        assert messages(followed.read_on()) == ["9"]
        assert messages(read_journal(path)) == ["1", "2", "9"]
    assert list(path.parent.glob("*.damaged-*")) == []


def test_a_damaged_last_line_is_cut_off_from_the_file_but_not_from_its_copy(path: Path) -> None:
    lines = write(path, 1, 2)
    path.write_bytes(lines[0] + b"x" + lines[1])
    damaged = path.read_bytes()
    assert len(write(path, 3)) == 2
    assert [copy.read_bytes() for copy in path.parent.glob("*.damaged-*")] == [damaged]


@pytest.mark.parametrize("line", [0, 1])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda line: line.replace(b'"message"', b'"massage"'), id="one letter"),
        pytest.param(lambda line: b"", id="line lost"),
        pytest.param(lambda line: line + line, id="line twice"),
        pytest.param(lambda line: line[:-2] + b"\n", id="line cut"),
        pytest.param(lambda line: b"\0" * len(line), id="zeros"),
    ],
)
def test_damage_before_the_end_is_named_and_nothing_is_changed(
    path: Path, line: int, damage: Callable[[bytes], bytes]
) -> None:
    lines = write(path, 1, 2, 3, 4)
    lines[line] = damage(lines[line])
    path.write_bytes(b"".join(lines))
    for read in (Ledger, read_journal):
        with pytest.raises(JournalError, match=r"journal\.jsonl: line \d: damaged.*`orchestrator doctor") as refusal:
            read(path)
        assert refusal.value.exit_code == 2
    assert path.read_bytes() == b"".join(lines)


def test_another_file_or_a_shorter_one_is_noticed(path: Path) -> None:
    for replaced in (lambda: path.write_bytes(b"{"), lambda: (path.unlink(), write(path, 4, 5, 6))):
        write(path, 1, 2, 3)
        followed = JournalReader(path)
        list(followed.read_on())
        replaced()
        assert followed.has_news()
        with pytest.raises(JournalReplacedError):
            list(followed.read_on())
        path.unlink()


def test_a_missing_journal_and_one_without_a_start_are_named(path: Path) -> None:
    with pytest.raises(JournalError, match="orchestrator search"):
        read_journal(path)
    with closing(Ledger(path)) as ledger:
        append(ledger, "experiment_started", experiment={"seed": 1}, data={}, environment={})
    history = read_history(path.parent)
    assert not history.finished
    with pytest.raises(UserError, match=r"journal\.jsonl: has no name, .* restore"):
        _ = history.name


def test_a_value_that_is_no_number_is_refused_and_leaves_no_trace(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        with pytest.raises(ValueError, match="not JSON compliant"):
            ledger.append(EpochEnded(trial="a", epoch=1, metrics={"x": float("nan")}, state=TrialState.RUNNING))
        append(ledger, "limit_noted", message="1")
    assert messages(read_journal(path)) == ["1"]


def test_a_full_disk_leaves_whole_records_and_the_next_start_goes_on(path: Path) -> None:
    write(path, 1, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(Ledger(path)) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
        try:
            with pytest.raises(OSError, match=r"File too large: .*journal\.jsonl"):
                append(ledger, "limit_noted", message="3")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(read_journal(path)) == 2 and JournalReader(path).rest == b""
        with pytest.raises(OSError, match="File too large") as refusal:
            append(ledger, "limit_noted", message="after a record that could not be written none is")
        assert refusal.value.errno == errno.EFBIG
    write(path, 4)
    assert messages(read_journal(path)) == ["1", "2", "4"]


def test_without_its_lock_file_a_journal_still_has_one_writer(path: Path) -> None:
    with closing(Ledger(path)):
        with pytest.raises(AlreadyRunningError, match="another process writes it") as refusal:
            Ledger(path)
        assert refusal.value.exit_code == 3
        with pytest.raises(AlreadyRunningError):
            check_experiment(path.parent, default_uri(path.parent), repair=True)
    Ledger(path).close()


@pytest.mark.parametrize("change", ["removed", "moved", "replaced"])
def test_a_journal_that_is_no_longer_in_its_place_gets_no_record(path: Path, change: str) -> None:
    write(path, 1)
    with closing(Ledger(path)) as ledger:
        if change == "removed":
            path.unlink()
        else:
            path.rename(path.with_name("former.jsonl"))
        if change == "replaced":
            path.write_text("")
        for _ in range(2):
            with pytest.raises(JournalGoneError, match=r"journal\.jsonl: was removed, moved or replaced"):
                append(ledger, "limit_noted", message="")
    assert not path.exists() or path.read_text() == ""


EVENTS = st.lists(
    st.tuples(st.sampled_from(["report", "end"]), st.integers(1, 4), st.sampled_from(list(TrialState))), max_size=12
)


@given(events=EVENTS)
def test_a_trial_ends_once_and_has_each_epoch_once_whatever_comes(tmp_path_factory, events) -> None:
    path = tmp_path_factory.mktemp("ledger") / "journal.jsonl"
    ledger = Ledger(path)
    start(ledger, make_experiment())
    trial = add_trial(ledger, [], state=TrialState.RUNNING)
    first_end = None
    for kind, epoch, state in events:
        if kind == "report":
            ledger.report(trial, epoch, {"val/rsum": float(epoch)}, state)
        elif state is not TrialState.RUNNING:
            ledger.end(trial, state, "error")
        if first_end is None and trial.state is not TrialState.RUNNING:
            first_end = trial.state
    ledger.close()
    records = read_journal(path)
    assert trial.state is (first_end or TrialState.RUNNING)
    assert sum(map(has_ended, records)) == (first_end is not None)
    epochs = [record.epoch for record in records if isinstance(record, EpochEnded)]
    assert len(epochs) == len(set(epochs)) == len(trial.epochs)
    with closing(Ledger(path)) as again:
        assert again.history == ledger.history, "a second process knows what the first knew"


def test_listeners_hear_of_what_is_on_the_disk_and_in_the_history(ledger: Ledger) -> None:
    heard: list[tuple[str, int]] = []

    def listen(record: Record) -> None:
        assert read_journal(ledger.path)[-1] == record
        heard.append((record.kind, len(ledger.history.trials)))

    ledger.listeners.append(listen)
    add_trial(ledger, [1.0])
    assert heard == [("trial_created", 1), ("trial_started", 1), ("epoch", 1)]


def test_what_many_trials_have_alike_is_kept_once_and_what_differs_is_not(ledger: Ledger) -> None:
    first, second = add_trial(ledger, [1.0]), add_trial(ledger, [2.0])
    assert first.config.training is second.config.training
    assert first.config == second.config and first.config is not second.config
    # The same text, but made anew by each parse, were it not for the journal.
    names = [next(iter(trial.epochs[1])) for trial in (first, second)]
    assert names[0] is names[1]
    rates = [1e-3, 1e-3, 2e-3, 1e-3]
    for number, rate in enumerate(rates):
        config = replace(first.config, training=replace(first.config.training, learning_rate=rate))
        ledger.create("study", number, {}, config)
    assert [trial.config.training.learning_rate for trial in ledger.history.trials.values()][2:] == rates


def test_a_thread_that_was_left_behind_writes_nothing_more(ledger: Ledger) -> None:
    refused: list[Exception] = []

    def write() -> None:
        try:
            append(ledger, "trial_ended", trial="a", state="failed", error="")
        except LeftBehindError as error:
            refused.append(error)

    ledger.take_over()
    other = threading.Thread(target=write)
    other.start()
    other.join()
    append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
    assert len(refused) == 1
    assert [record.kind for record in read_journal(ledger.path)][1:] == ["experiment_ended"]


def test_new_parent_folders_are_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[Path] = []
    monkeypatch.setattr(files, "force_to_disk", forced.append)
    files.make_writable(tmp_path / "a" / "b" / "c")
    assert forced == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    files.make_writable(tmp_path / "a" / "b" / "c")
    assert len(forced) == 3
