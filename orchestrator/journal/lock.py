"""One process at a time in an experiment directory.

The kernel holds the lock (``flock``) and releases it however the process ends; the file's content names the holder.
Where machines share a disk but not their locks, only the name protects the directory. A lock left by another host then
holds until a person removes it. A host is known by its name, or by the id of its boot. An equal name with another boot
id is this host before its last start. Another name with an equal boot id is a container on this host.

The next holder clears what a killed process left on its machine: its child processes and its temporary directory. The
directory is removed only if this product certainly made it. It must be no link, belong to this user, be closed to other
users, and have a mark that names its owner. A name alone proves nothing, because every user who can write to ``/tmp``
can choose names.
"""

import errno
import fcntl
import os
import random
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

import msgspec
import psutil

from orchestrator.journal.directory import JOURNAL_FILE
from trainables.errors import ConfigError, NoLocksError, UserError
from trainables.files import LARGEST_STATE, lock_file, parse_state

PREFIX = "icr-"
"""Start of the names of all temporary directories; the rest of a name is random."""

MARK = ".icr-scratch"
"""File in a temporary directory that names its owner."""


def make_directory(kind: str = "") -> Path:
    """Make a directory with a random name that only this user can enter."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}"))


def mark_directory(directory: Path, owner: str) -> int:
    """Write the owner's mark into a directory of ours, and return its descriptor, locked until the caller closes it.

    The owner is a name that only the owner knows later; empty where the lock on the mark proves that an owner lives.
    """
    partial = directory / f"{MARK}.{os.getpid()}"
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(descriptor, owner.encode())
    # Locked before the file gets its name, so that no process finds the mark unlocked while the owner lives.
    lock_file(descriptor, fcntl.LOCK_EX, str(directory))
    partial.rename(directory / MARK)
    return descriptor


def _open_mark(directory: Path) -> IO[str]:
    """Open the mark of a directory that is no link, belongs to this user and cannot be entered by others."""
    status, mark = directory.lstat(), directory / MARK
    is_private = stat.S_ISDIR(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
    if not is_private or status.st_uid != os.getuid() or mark.is_symlink():
        raise PermissionError(f"{directory}: not a directory that this user alone can enter")
    return mark.open(encoding="utf-8", errors="replace")


def owner_of(directory: Path) -> str | None:
    """Return the owner of a directory of ours; ``None`` where the directory is not proved to be ours."""
    try:
        with _open_mark(directory) as mark:
            return mark.read(4096)
    except OSError:
        return None


def remove_abandoned(kind: str) -> None:
    """Remove the directories of a kind whose owners have ended: their marks are not locked."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}{kind}*"):
        with suppress(OSError, NoLocksError), _open_mark(directory) as mark:
            lock_file(mark, fcntl.LOCK_EX | fcntl.LOCK_NB, str(directory))
            # Removal follows no links.
            shutil.rmtree(directory, ignore_errors=True)


def find_processes(scratch: Path) -> list[psutil.Process]:
    """Return the processes of this user whose command line names a scratch directory, as Ray's processes do."""
    running = psutil.process_iter(["uids", "cmdline"])
    others = (process for process in running if process.pid != os.getpid() and process.info["uids"])
    ours = (process for process in others if process.info["uids"].real == os.getuid())
    return [process for process in ours if any(str(scratch) in argument for argument in process.info["cmdline"] or ())]


def clear_scratch(scratch: Path, owner: str) -> None:
    """Remove a scratch directory and end its processes, if the directory's mark names ``owner``; else do nothing."""
    if owner_of(scratch) != owner:
        return
    for process in find_processes(scratch):
        with suppress(psutil.Error):
            process.kill()
    shutil.rmtree(scratch, ignore_errors=True)


class AlreadyRunningError(UserError):
    """Another process holds the experiment."""

    exit_code = 3


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock, as the process describes itself in the lock file.

    Attributes:
        boot_id: Id of the host's boot; empty where the system has none.
        started: The date at which the process took the lock, in ISO format.
        scratch: Path of the process's temporary directory; ``None`` where it has none.
    """

    pid: int
    host: str
    boot_id: str
    started: str
    scratch: str | None

    @staticmethod
    def of_this_process(scratch: Path | None = None) -> "Holder":
        """Return this process as a holder from now on."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        return Holder(os.getpid(), socket.gethostname(), boot_id(), started, None if scratch is None else str(scratch))

    @classmethod
    def parse(cls, text: str | bytes) -> Self | None:
        """Return the holder that a JSON text describes; ``None`` where it describes none."""
        try:
            return msgspec.convert(parse_state(text), cls)
        except ValueError:
            return None

    @property
    def is_here(self) -> bool:
        """Whether the holder ran on this machine, whose kernel knows whether the holder is alive."""
        return self.host == socket.gethostname() or (self.boot_id == boot_id() != "")

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@contextmanager
def hold(directory: Path, scratch: Path | None = None) -> Iterator[None]:
    """Hold an experiment directory for the length of a ``with`` block.

    Args:
        directory: The experiment's directory, which exists.
        scratch: A temporary directory of this process. If this process is killed, the next holder removes the directory
            and ends the processes that use it.

    Raises:
        AlreadyRunningError: If another process holds the directory; the message names the process.
        UserError: If the lock is not a file of its own, but a link.
    """
    with _open(directory / "lock") as file, ExitStack() as end:
        is_free, holder = take(file), _read(file)
        if not is_free or not (holder is None or holder.is_here):
            raise AlreadyRunningError(_refusal(directory, holder))
        if holder is not None and holder.scratch is not None:
            clear_scratch(Path(holder.scratch), _identity(file))
        _write(file, Holder.of_this_process(scratch))
        if scratch is not None:
            end.callback(os.close, mark_directory(scratch, _identity(file)))
        end.callback(_write, file, None)
        yield


def take(file: IO[Any]) -> bool:
    """Lock an open file for this process alone; say whether the file was free.

    A process that only tests whether the file is locked (``is_taken``) shares the lock for a moment. This function
    waits for the end of such a test, so that a test by another process refuses no start.
    """
    while True:
        try:
            lock_file(file, fcntl.LOCK_EX | fcntl.LOCK_NB, file.name)
        except BlockingIOError:
            if is_taken(file):
                return False
            # Two processes that start at once may each be disturbed by the test of the other.
            time.sleep(random.uniform(0.001, 0.01))
        else:
            return True


def is_taken(file: IO[Any]) -> bool:
    """Say whether another process has locked an open file for itself alone."""
    try:
        lock_file(file, fcntl.LOCK_SH | fcntl.LOCK_NB, file.name)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107
"""Most bytes of the path of a socket (``sun_path``)."""

PART_OF_RAY = len("/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Bytes that Ray adds at most to the path of a scratch directory."""

SHORT_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders in which every user may make directories, for scratch directories where the path of TMPDIR is too long."""


@contextmanager
def make_scratch() -> Iterator[Path]:
    """Make a directory that only this user can enter, with a path short enough for Ray's sockets; remove it in the end.

    Raises:
        ConfigError: If the temporary folders of this machine have too long paths, or cannot be written.
    """
    named = tempfile.gettempdir()
    longest = LONGEST_SOCKET - PART_OF_RAY - len(f"/{PREFIX}12345678")
    for folder in (named, *SHORT_FOLDERS):
        if len(os.fsencode(folder)) > longest:
            continue
        with suppress(OSError):
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
            break
    else:
        raise ConfigError(
            f"TMPDIR {named}: has {len(os.fsencode(named))} characters, and Ray's sockets leave {longest}; "
            f"set TMPDIR to a folder with a shorter path"
        )
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def find_holder(directory: Path) -> Holder | None:
    """Return the process that holds a directory, or ``None`` where no process does."""
    holder = read_lock(directory)
    if holder is None or not holder.is_here:
        return holder
    try:
        with (directory / "lock").open("rb") as file:
            return holder if is_taken(file) else None
    except NoLocksError:
        # A search that ran where there are locks may lie, or be copied, where there are none: its process tells.
        return holder if psutil.pid_exists(holder.pid) else None


def read_lock(directory: Path) -> Holder | None:
    """Return the process that a directory's lock names, whether the process lives or not."""
    path = directory / "lock"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return _read(file)


def left_scratch(directory: Path, holder: Holder) -> Path | None:
    """Return the scratch directory that a holder left behind, if the directory's mark names this lock."""
    with _open(directory / "lock") as file:
        scratch = None if holder.scratch is None else Path(holder.scratch)
        return scratch if scratch is not None and owner_of(scratch) == _identity(file) else None


def _open(path: Path) -> IO[str]:
    """Open a lock file, or make one; a link in its place is refused."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(f"{path}: is a link, which would have the file behind it written over; remove it") from None
    # Opened by its path, which messages name.
    return open(path, "r+", encoding="utf-8", errors="replace", opener=lambda *given: descriptor)


def _identity(file: IO[str]) -> str:
    """Return an id of this lock that stays when its folder is moved, and that no copy of the lock has."""
    status = os.fstat(file.fileno())
    return f"{status.st_dev}:{status.st_ino}"


def boot_id() -> str:
    """Return the id of the machine's present boot; empty where the system has none."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.is_file() else ""


def _refusal(directory: Path, holder: Holder | None) -> str:
    if holder is None:
        return f"{directory}: already running: another process has just started"
    message = f"{directory}: already running: {holder}, since {holder.started}"
    if holder.is_here:
        # Trainings and extractions hold their folders too, and have no journal.
        is_search = (directory / JOURNAL_FILE).is_file()
        watch = f"watch it with `orchestrator status {directory}`" if is_search else "wait for its end"
        return f"{message}; {watch}"
    return f"{message}; if it is gone from there, remove {directory / 'lock'}"


def _read(file: IO[str]) -> Holder | None:
    """Return the holder that a lock file names, or ``None`` after a release or where its writer was killed."""
    file.seek(0)
    return Holder.parse(file.read(LARGEST_STATE + 1))


def _write(file: IO[str], holder: Holder | None) -> None:
    file.seek(0)
    file.truncate()
    if holder is not None:
        file.write(msgspec.json.encode(holder).decode())
    file.flush()
