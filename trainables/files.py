"""Files and folders that appear whole or not at all, locks between processes, and a cache of what was computed of
files.

JSON files of this software may have been damaged, changed or replaced since they were written.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from trainables.errors import DataError, NoLocksError


def cache_folder() -> Path:
    """Return the folder of this user for files that can be made again: ``XDG_CACHE_HOME``, by default ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "icr-orchestrator"


def make_in_cache(folder: Path) -> None:
    """Make a folder in the cache, which is closed to other users, because code of plug-ins is run from there.

    A cache that is there already, and that all users can write, is closed to them.

    Raises:
        OSError: If the folder cannot be made.
    """
    cache = cache_folder()
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.mkdir(mode=0o700, exist_ok=True)
    if stat.S_IMODE(cache.stat().st_mode) & stat.S_IWOTH:
        cache.chmod(0o700)
    folder.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name in the same directory, force it to the disk, then give it its name."""
    with writing_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the same directory, which gets the name ``path`` when the block ends without error."""
    # ``mkstemp`` would make a file that only its user can read, but users of a machine share features.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    force_to_disk(path.parent)


@contextmanager
def aside(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``target``; the block fills and renames the folder, which is removed otherwise.

    The removal also frees the disk space of an unfinished folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     target = Path(folder) / "model"
        ...     with aside(target) as partial:
        ...         (partial / "weights").touch()
        ...         take_place(partial, target)
        ...     [path.name for path in target.parent.rglob("*")]
        ['model', 'weights']
    """
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    partial.mkdir(parents=True)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def take_place(partial: Path, target: Path) -> None:
    """Rename a folder that was made beside ``target`` to ``target``; replaces an existing file or folder."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    partial.rename(target)
    force_to_disk(target.parent)


WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}
"""Errors of ``flock`` on a file system that has no locks: Lustre without ``-o flock``, NFS without a lock daemon."""


def lock_file(file: int | IO[Any], operation: int, path: str) -> None:
    """Lock an open file as ``flock`` does; ``path`` names the file.

    Raises:
        BlockingIOError: If another process holds the file, and the operation does not wait.
        NoLocksError: If the file system has no locks.
    """
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        raise NoLocksError(path, error.strerror or str(error)) from None


@contextmanager
def alone(lock: Path, *, waits: bool = True) -> Iterator[None]:
    """Hold a lock file while the block runs, after waiting for other processes of this machine; the empty file stays.

    Raises:
        BlockingIOError: If another process holds it, and ``waits`` is false.
        NoLocksError: If the file system has no locks.
        OSError: If the lock file is a link, because another user could have made the link to open another file.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        lock_file(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB), str(lock))
        yield
    finally:
        os.close(descriptor)


def make_writable(directory: Path) -> None:
    """Make a directory with its parents, and check by making a file that the directory can be written.

    The file has no name, or a random one, so that processes and threads can check one directory at the same time.

    Raises:
        OSError: If the directory cannot be written.
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in made:
        # Else a loss of power could take a folder, with all that was forced to the disk in it.
        force_to_disk(path.parent)
    with tempfile.TemporaryFile(dir=directory, prefix=".writable-"):
        pass


def force_to_disk(path: Path) -> None:
    """Force a file, or the renamed and new entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LARGEST_STATE = 16 << 20
"""Largest size of a file in bytes; this software writes no larger JSON files."""


def read_state(path: Path, largest: int = LARGEST_STATE) -> Any:
    """Return the value in a JSON file.

    The file is UTF-8 and has at most ``largest`` bytes.

    Raises:
        OSError: If the file is missing or cannot be read.
        ValueError: If the file is too large, not UTF-8 or no JSON, or its values are nested too deeply (for which
            Python's own reader raises ``RecursionError``).
    """
    with path.open("rb") as file:
        return parse_state(file.read(largest + 1), largest)


def parse_state(text: bytes | str, largest: int = LARGEST_STATE) -> Any:
    """Return the value of a JSON text; raises the ``ValueError`` of ``read_state``."""
    if len(text) > largest:
        raise ValueError(f"more than {largest >> 20} MB" if largest >= 1 << 20 else f"more than {largest:,} bytes")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None


_CHECKS = 2
"""Version of the checks of files, increased when a rule changes, so that results of older versions are not used."""

# A file that was changed in the last moment may change again within one tick of the file system's clock.
_SETTLED_NANOSECONDS = 2_000_000_000


def default_cache() -> Path:
    """Return the folder of prepared datasets under the user's cache directory."""
    return cache_folder() / "data"


def remembered(path: Path, compute: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``compute(path)`` gives, from the cache if the file is as it was then.

    A file is known again by its path, size, inode and times of change, so that gigabytes are read once. A
    damaged record is written anew. ``compute`` gets a link itself, because it may read the file by the link's name.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: must be a regular file")
    times = [status.st_mtime_ns, status.st_ctime_ns]
    identity = [str(path.resolve()), status.st_size, status.st_ino, *times, compute.__qualname__, _CHECKS]
    record = default_cache() / "files" / f"{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        kept = read_state(record)
        if kept["identity"] == identity:
            return kept["value"]
    value = compute(path)
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NANOSECONDS:
        with writing_to(record.parent):
            make_in_cache(record.parent)
            write_whole(record, json.dumps({"identity": identity, "value": value}))
    return value


@contextmanager
def writing_to(cache: Path) -> Iterator[None]:
    """Turn a failure to write below a folder into an error that names the remedy."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or cache}: cannot be written: {error.strerror}; "
            "point XDG_CACHE_HOME to a folder on a disk with space that you may write to"
        ) from error


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``target`` when the block ends well, and vanishes when it doesn't.

    Where another process made ``target`` in the meantime, that one stays.
    """
    with aside(target) as partial:
        yield partial
        for file in partial.rglob("*"):
            force_to_disk(file)
        force_to_disk(partial)
        try:
            partial.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        force_to_disk(target.parent)
