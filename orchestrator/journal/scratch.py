"""Temporary directories of this product, and the proof that a directory is one of them.

A directory of a killed process is removed only if this product certainly made the directory: it is no link, it belongs
to this user, no other user can enter it, and it has a mark that names its owner. A name alone proves nothing, because
every user who can write to ``/tmp`` can choose names.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "icr-"
"""Start of the names of all temporary directories; the rest of a name is random."""

MARK = ".icr-scratch"
"""File in a temporary directory that names its owner."""


def make(kind: str = "") -> Path:
    """Make a directory with a random name that only this user can enter."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}"))


def mark(directory: Path, owner: str) -> int:
    """Write the owner's mark into a directory of ours.

    Args:
        directory: Directory that ``make`` returned.
        owner: Name that only the owner knows later; empty where the lock on the mark alone proves that an owner lives.

    Returns:
        The descriptor of the mark, which is locked for as long as the caller keeps it open.
    """
    partial = f"{MARK}.{os.getpid()}"
    with _opened(directory) as folder:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        os.write(descriptor, owner.encode())
        # Locked before the file gets its name, so that no process finds the mark unlocked while the owner lives.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.rename(partial, MARK, src_dir_fd=folder, dst_dir_fd=folder)
    return descriptor


def owner_of(directory: Path) -> str | None:
    """Return the owner of a directory of ours; ``None`` where the directory is not proved to be ours."""
    try:
        with _marked(directory) as descriptor:
            return os.read(descriptor, 4096).decode(errors="replace")
    except OSError:
        return None


def remove_abandoned(kind: str) -> None:
    """Remove the directories of a kind whose owners have ended: their marks are not locked."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}{kind}*"):
        with suppress(OSError), _marked(directory) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Removal follows no links.
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _marked(directory: Path) -> Iterator[int]:
    """Open the mark of a directory of ours."""
    with _opened(directory) as folder:
        descriptor = os.open(MARK, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Open a directory that is no link, belongs to this user and cannot be entered by others."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{directory}: not a directory that this user alone can enter")
        yield folder
    finally:
        os.close(folder)
