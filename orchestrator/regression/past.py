"""The reruns in a suite's output folder: finished and unfinished reruns, and reruns that are dated in the future."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.regression.ended import SUMMARY, EndedRerun, read_summary

STAMP = "%Y%m%dT%H%M%SZ"
"""Format of the name of a rerun's folder: the time at which the rerun started, in UTC, so that names sort by time."""

SKEW = 300.0
"""Seconds by which the clocks of two machines that share an output folder may differ."""


@dataclass(frozen=True)
class Past:
    """The reruns of a suite, each group oldest first.

    Attributes:
        finished: Folders with a summary.
        started: Folders with a journal, including the folders of finished reruns.
        future: Folders of reruns that are dated in the future; these folders are in no other group.
    """

    finished: tuple[Path, ...]
    started: tuple[Path, ...]
    future: tuple[Path, ...]

    @property
    def warning(self) -> str | None:
        """A sentence about the reruns that are dated in the future, or ``None``."""
        if not self.future:
            return None
        names = ", ".join(path.name for path in self.future)
        return (
            f"{self.future[0].parent}: ignored reruns that are dated in the future: {names}; this machine's clock is "
            f"wrong, or was wrong when they ran: set the clock, or remove them"
        )


def past_reruns(home: Path, *, now: float | None = None) -> Past:
    """Return the reruns of a suite.

    Args:
        home: The suite's folder in the output folder.
        now: Seconds since the Unix epoch; by default the clock of this machine.
    """
    latest = (time.time() if now is None else now) + SKEW
    begun = {path.parent: _started(path.parent) for name in (JOURNAL_FILE, SUMMARY) for path in home.glob(f"*/{name}")}
    # A folder whose name is no date is a copy that a person made, not a rerun.
    folders = sorted(path for path, started in begun.items() if started is not None)
    future = {path for path in folders if (begun[path] or 0.0) > latest}
    finished = [path for path in folders if path not in future and (path / SUMMARY).exists()]
    # The clock may have been set forward while a rerun ran. Only the newest rerun's end is used (`find_fresh`), so only
    # the newest reruns are checked.
    while finished and read_summary(finished[-1]).ended > latest:
        future.add(finished.pop())
    started = [path for path in folders if path not in future and (path / JOURNAL_FILE).exists()]
    return Past(tuple(finished), tuple(started), tuple(sorted(future)))


def still_slipped(summary: EndedRerun, accepted: str | None) -> bool:
    """Say whether a finished rerun found a regression or a failure, and no reference has been accepted since then.

    A schedule that runs the command every hour must fail until the regression is fixed or accepted, even if no rerun is
    due.

    Args:
        summary: The rerun's summary.
        accepted: When the reference was accepted, ISO 8601; ``None`` without a reference.
    """
    since = accepted is not None and datetime.fromisoformat(accepted).timestamp() > summary.ended
    return summary.slipped and not since


def name_rerun(home: Path, *, now: float | None = None) -> Path:
    """Return the folder of a rerun that starts now.

    A rerun that starts in the same second as another rerun gets the next free second: each rerun needs its own folder,
    and the names of the folders must sort by the order of the starts.

    Args:
        home: The suite's folder in the output folder.
        now: Seconds since the Unix epoch; by default the clock of this machine.
    """
    start = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    while (directory := home / f"{start:{STAMP}}").exists():
        start += timedelta(seconds=1)
    return directory


def find_fresh(finished: Sequence[Path], if_due: float | None, *, now: float | None = None) -> Path | None:
    """Return the newest finished rerun if that rerun ended less than ``if_due`` seconds ago."""
    if if_due is None or not finished:
        return None
    age = (time.time() if now is None else now) - read_summary(finished[-1]).ended
    return finished[-1] if age < if_due else None


def _started(directory: Path) -> float | None:
    """Return the date in the name of a rerun's folder; ``None`` where the name is no date."""
    try:
        return datetime.strptime(directory.name, STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
