"""What a process leaves on the disk that is killed, or whose machine loses its power, at a write of its journal.

A snapshot is the output folder as it is when a record has been written and nobody has acted on it. Every earlier
moment since the former record differs in the end of the journal alone, or in a checkpoint that was not yet there; so
one folder stands for the kill before the record, for the record torn at any byte, and for the kill after it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.journal import ledger as ledger_module
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record, read_record

JOURNAL = Path("tiny") / "journal.jsonl"


@dataclass(frozen=True)
class Snapshot:
    """The disk right after a record of some bytes.

    After a loss of power the journal has the ``forced`` bytes, and of the ``unforced`` files nothing is left.
    """

    record: Record
    folder: Path
    length: int
    is_forced: bool
    forced: int
    unforced: tuple[Path, ...]

    def restore(self, output: Path, lost: int = 0, *, power: bool = True) -> None:
        """Write the disk as it is found after a crash that lost some bytes of the journal, and perhaps the power."""
        for path in output.glob("*/"):
            shutil.rmtree(path)
        shutil.copytree(self.folder, output, dirs_exist_ok=True)
        for path in () if power else self.unforced:
            (output / path).write_bytes(b"")
        os.truncate(output / JOURNAL, (output / JOURNAL).stat().st_size - lost)


class Disk:
    """Remembers which content of a file was forced to the disk, in the place of ``os.fsync``, which takes longer."""

    def __init__(self) -> None:
        self._forced: dict[int, tuple[int, int]] = {}

    def force(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self._forced[status.st_ino] = (status.st_size, status.st_mtime_ns)

    def holds(self, path: Path) -> bool:
        """Say whether the content that a file has now would be there after a loss of power."""
        status = path.stat()
        return self._forced.get(status.st_ino) == (status.st_size, status.st_mtime_ns)

    def forced(self, path: Path) -> int:
        """Return how many bytes of a file that is only appended to would be there after a loss of power."""
        return self._forced.get(path.stat().st_ino, (0, 0))[0]


@contextmanager
def simulated_disk() -> Iterator[Disk]:
    """Force nothing to the real disk for the length of a ``with`` block: that takes most of a fake training."""
    disk = Disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", disk.force)
        yield disk


class CrashError(RuntimeError):
    """Ends a search at a record; nothing of ours may take it for a failure of a trial."""


@contextmanager
def snapshots(
    output: Path, copies: Path, until: Callable[[Snapshot], bool] = lambda snapshot: False, lag: float = 0.0
) -> Iterator[list[Snapshot]]:
    """Take a snapshot of an output folder at each record written in a ``with`` block, which ``until`` ends.

    ``lag`` is that of epochs after which their trials go on, in seconds, see ``ledger``.
    """
    taken = list[Snapshot]()

    write = Ledger._write

    def watch(ledger: Ledger, line: bytes, may_lag: bool) -> None:
        write(ledger, line, may_lag)
        copy = copies / f"{len(taken):04d}"
        shutil.copytree(output, copy, ignore=shutil.ignore_patterns("mlflow.db*"))
        files = [path for path in (output / JOURNAL).parent.rglob("*") if path.is_file()]
        journal = output / JOURNAL
        unforced = tuple(path.relative_to(output) for path in files if path != journal and not disk.holds(path))
        is_forced, forced = disk.holds(journal), disk.forced(journal)
        taken.append(Snapshot(read_record(line), copy, len(line), is_forced, forced, unforced))
        if until(taken[-1]):
            raise CrashError

    with simulated_disk() as disk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "_write", watch)
        patch.setattr(ledger_module, "LAG_SECONDS", lag)
        with suppress(CrashError):
            yield taken
