"""A cache of digests of source files and of prepared datasets, whose folders appear whole or not at all."""

import contextlib
import errno
import hashlib
import json
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainables.errors import DataError
from trainables.files import aside, cache_folder, force_to_disk, read_state, write_whole

_CHECKS = 2
"""Version of the checks of files, increased when a rule changes, so that results of older versions are not used."""

# A file that was changed in the last moment may change again within one tick of the file system's clock.
_SETTLED_NANOSECONDS = 2_000_000_000


def default_cache() -> Path:
    """Return the folder of prepared datasets under the user's cache directory."""
    return cache_folder() / "data"


def remembered(cache: Path, path: Path, compute: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``compute(path)`` gives, from the cache if the file is as it was then.

    A file is known again by its path, size, inode and times of change, so that gigabytes are read once. A
    damaged record is written anew.
    """
    path = path.resolve()
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: must be a regular file")
    times = [status.st_mtime_ns, status.st_ctime_ns]
    identity = [str(path), status.st_size, status.st_ino, *times, compute.__qualname__, _CHECKS]
    record = cache / "files" / f"{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        kept = read_state(record)
        if kept["identity"] == identity:
            return kept["value"]
    value = compute(path)
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NANOSECONDS:
        with writing_to(cache):
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, json.dumps({"identity": identity, "value": value}))
    return value


@contextlib.contextmanager
def writing_to(cache: Path) -> Iterator[None]:
    """Turn a failure to write below a folder into an error that names the remedy."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or cache}: cannot be written: {error.strerror}; "
            "point XDG_CACHE_HOME to a folder on a disk with space that you may write to"
        ) from error


@contextlib.contextmanager
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
