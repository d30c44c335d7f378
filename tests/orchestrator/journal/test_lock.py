"""The lock: one holder, named to a second start, and gone with its process; what was left goes, if it is ours."""

import errno
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import pytest

from orchestrator.journal import lock
from orchestrator.journal.lock import (
    LONGEST_SOCKET,
    MARK,
    AlreadyRunningError,
    Holder,
    boot_id,
    find_holder,
    hold,
    is_taken,
    make_directory,
    make_scratch,
    mark_directory,
    owner_of,
    remove_abandoned,
    take,
)
from orchestrator.storage.stores import FolderStore
from tests.support.child_process import running
from trainables.errors import ConfigError, NoLocksError, UserError
from trainables.files import alone

HOLD = """
import sys, time
from pathlib import Path
from orchestrator.journal.lock import hold
with hold(Path(sys.argv[1]), Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(3600)
"""


def test_a_second_start_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with hold(tmp_path):
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} on {socket.gethostname()}") as refusal:
            hold(tmp_path).__enter__()
        assert refusal.value.exit_code == 3
        found = find_holder(tmp_path)
        assert (found.pid, found.boot_id) == (os.getpid(), boot_id())


@pytest.mark.proof
def test_the_lock_of_a_killed_process_is_stale_and_what_it_left_goes(tmp_path: Path) -> None:
    scratch = tmp_path / "icr-scratch"
    scratch.mkdir(mode=0o700)
    command = [sys.executable, "-c", HOLD, str(tmp_path), str(scratch)]
    with running(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.kill()
    # As Ray's workers do, it names the scratch directory in its command line.
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", str(scratch / "x")])
    assert find_holder(tmp_path) is None
    with hold(tmp_path):
        assert not scratch.exists()
        assert left.wait(120) == -9
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert (tmp_path / "lock").read_text() == ""


@pytest.mark.parametrize(
    ("host", "boot", "mine", "stale"),
    [
        ("here", "this", "this", True),
        ("here", "former", "this", True),
        ("container", "this", "this", True),
        ("elsewhere", "other", "this", False),
        # Without boot ids, the name of the host decides.
        ("elsewhere", "", "", False),
    ],
)
def test_a_lock_that_no_process_of_this_machine_holds_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, boot: str, mine: str, stale: bool
) -> None:
    monkeypatch.setattr("orchestrator.journal.lock.socket.gethostname", lambda: "here")
    monkeypatch.setattr("orchestrator.journal.lock.boot_id", lambda: mine)
    left = {"pid": 1, "host": host, "boot_id": boot, "started": "2026-01-01T00:00:00+00:00", "scratch": None}
    (tmp_path / "lock").write_text(json.dumps(left))
    assert find_holder(tmp_path) == (None if stale else Holder(**left))
    if stale:
        with hold(tmp_path):
            assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    else:
        with pytest.raises(AlreadyRunningError, match="on elsewhere.*remove .*lock"), hold(tmp_path):
            pass
        assert json.loads((tmp_path / "lock").read_text()) == left


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="released"),
        pytest.param('{"pid": 1, "ho', id="torn"),
        pytest.param("[]", id="no mapping"),
        pytest.param('{"pid": 1}', id="no holder"),
        pytest.param('{"pid": 1, "host": "", "boot_id": "", "started": "", "scratch": 5}', id="no path"),
        pytest.param('{"pid": "1", "host": "", "boot_id": "", "started": "", "scratch": null}', id="no number"),
    ],
)
def test_a_lock_nobody_holds_is_taken(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    # An error inside lets go.
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), hold(tmp_path):
            _ = 1 / 0


def test_the_folder_of_a_killed_process_may_be_moved(tmp_path: Path) -> None:
    scratch = leave(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    with hold(tmp_path / "moved"):
        assert not scratch.exists()


def leave(directory: Path) -> Path:
    """Leave the lock and the scratch directory of a process that was killed; return the latter."""
    directory.mkdir()
    scratch = directory.parent / "icr-left"
    scratch.mkdir(mode=0o700)
    (scratch / "session").mkdir()
    with hold(directory, scratch):
        content = (directory / "lock").read_text()
    (directory / "lock").write_text(content)
    return scratch


def put_link(path: Path) -> None:
    path.rename(path.with_name("behind"))
    path.symlink_to(path.with_name("behind"))


@pytest.mark.parametrize(
    ("change", "place", "owned"),
    [
        pytest.param(lambda run, left: shutil.copytree(run, run.with_name("copy")), "copy", True, id="a copy"),
        pytest.param(lambda run, left: (left / MARK).unlink(), "run", False, id="without a mark"),
        pytest.param(lambda run, left: (left / MARK).write_text("1:1"), "run", True, id="another mark"),
        pytest.param(lambda run, left: left.chmod(0o777), "run", False, id="open to others"),
        pytest.param(lambda run, left: put_link(left), "run", False, id="a link"),
        pytest.param(lambda run, left: put_link(left / MARK), "run", False, id="a link as mark"),
    ],
)
def test_a_directory_that_is_not_of_this_lock_stays(
    tmp_path: Path, change: Callable[[Path, Path], object], place: str, owned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = leave(tmp_path / "run")
    change(tmp_path / "run", scratch)
    killed: list[Path] = []
    monkeypatch.setattr("orchestrator.journal.lock.find_processes", lambda path: killed.append(path) or [])
    with hold(tmp_path / place):
        assert (scratch / "session").is_dir()
        assert killed == [], "nor are its processes ended"
    assert (owner_of(scratch) is not None) is owned


def test_a_directory_of_another_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = leave(tmp_path / "run")
    monkeypatch.setattr("orchestrator.journal.lock.os.getuid", lambda: os.geteuid() + 1)
    assert owner_of(scratch) is None
    with hold(tmp_path / "run"):
        assert scratch.is_dir()


def test_of_actors_only_what_ended_processes_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned, living, unmarked = (make_directory("actors-") for _ in range(3))
    other = make_directory("other-")
    assert living.stat().st_mode & 0o777 == 0o700
    for directory in (abandoned, other):
        os.close(mark_directory(directory, "me"))
        assert owner_of(directory) == "me"
    held = mark_directory(living, "")
    remove_abandoned("actors-")
    assert [path.exists() for path in (abandoned, living, unmarked, other)] == [False, True, True, True]
    os.close(held)
    remove_abandoned("actors-")
    assert not living.exists()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As Lustre without ``-o flock`` and NFS without a lock daemon answer."""
    holder = Holder.of_this_process()
    (tmp_path / "lock").write_bytes(msgspec.json.encode(holder))

    def flock(file: object, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    refused = rf"{tmp_path}/\S+: this file system cannot lock files \({os.strerror(number)}\); choose another"
    with pytest.raises(NoLocksError, match=refused), hold(tmp_path):
        pytest.fail("two processes could write here")
    with pytest.raises(NoLocksError, match=refused), alone(tmp_path / "other"):
        pytest.fail("two processes could write here")
    with pytest.raises(NoLocksError, match=refused):
        FolderStore.claimed(tmp_path)
    assert find_holder(tmp_path) == holder, "to read needs no lock"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remove_abandoned("")


def test_a_scratch_directory_has_a_path_short_enough_for_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ray names them; the longest is bound."""
    long = tmp_path / ("a" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with make_scratch() as scratch:
        assert scratch.stat().st_mode & 0o077 == 0 and long not in scratch.parents
        path = f"{scratch}/r/session_2026-11-28_23-59-59_999999_4194304/sockets/plasma_store"
        assert len(path.encode()) <= LONGEST_SOCKET
    assert not scratch.exists()
    monkeypatch.setattr(lock, "SHORT_FOLDERS", ())
    refused = (
        rf"TMPDIR {long}: has {len(str(long))} characters, and Ray's sockets leave \d+; set TMPDIR to a folder with"
    )
    with pytest.raises(ConfigError, match=refused), make_scratch():
        pytest.fail("there is no such folder")
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setattr(lock, "LONGEST_SOCKET", 103)
    with make_scratch() as scratch:
        assert scratch.parent == Path("/tmp")


def test_a_lock_that_is_a_link_is_refused_and_nothing_behind_it_written(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "diary")
    with pytest.raises(UserError, match="lock: is a link"), hold(tmp_path):
        pass
    assert (tmp_path / "diary").read_text() == "mine"


def test_a_start_waits_while_a_question_shares_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "lock").open("w") as reader, (tmp_path / "lock").open("w") as start:

        def ask_until_the_question_is_over(file: IO[str]) -> bool:
            was_taken = is_taken(file)
            fcntl.flock(reader, fcntl.LOCK_UN)
            return was_taken

        fcntl.flock(reader, fcntl.LOCK_SH)
        with monkeypatch.context() as patch:
            # The start finds the lock shared, and then asks whose it is.
            patch.setattr(lock, "is_taken", ask_until_the_question_is_over)
            assert take(start)
        assert is_taken(reader)
        assert not take(reader)
