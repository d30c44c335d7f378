"""The experiments that are watched: the experiments that were named, or all of an output folder, new ones too."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.journal import JournalError
from orchestrator.journal.lock import find_holder
from orchestrator.report.leaderboard import Row
from orchestrator.report.page import Extras, Page, build_page
from orchestrator.results.confirmed import verdicts_of
from orchestrator.search.followed import Followed
from orchestrator.search.status import Status, status_of

SMALL = 4 * 2**20
"""Largest journal, in bytes, that is read while a page waits; a longer journal is read in a thread."""


@dataclass(frozen=True)
class View:
    """What the page of an experiment shows after a record.

    Attributes:
        version: Of the followed experiment, see ``Followed``.
        status: How the experiment stands.
        page: The page without its figures.
        rows: Trial -> the version with which its row of the leaderboard became what it is, and the row.
        seconds: That it took to make the view.
    """

    version: int
    status: Status
    page: Page
    rows: Mapping[str, tuple[int, Row]]
    seconds: float

    def rows_since(self, version: int) -> list[Row]:
        """Return the rows that have changed after a version."""
        return [row for changed, row in self.rows.values() if changed > version]


class Watched:
    """One experiment; what several requests ask for at once is read and made once.

    Args:
        directory: Of the experiment, whose journal need not be there yet.
    """

    def __init__(self, directory: Path) -> None:
        self.name = directory.name
        self.directory = directory
        self.lock = threading.RLock()
        self.followed = Followed(directory)
        self.problem: str | None = None
        self._is_read = self._is_reading = False
        self._view: View | None = None
        self._status: tuple[tuple[int, bool], Status] | None = None

    def refresh(self) -> int:
        """Read on in the journal, and return the version; why the journal cannot be read is kept as the problem."""
        with self.lock:
            try:
                if self.followed.read_on():
                    self.problem = None
            except JournalError as error:
                self.problem = str(error)
            except OSError as error:
                self.problem = f"{self.directory}: {error.strerror}"
            self._is_read = True
            return self.followed.version

    def is_at_hand(self) -> bool:
        """Say whether the experiment can be shown without a wait; else begin to read its journal in a thread."""
        if self._is_read or _size(self.directory) <= SMALL:
            return True
        if not self._is_reading:
            self._is_reading = True
            threading.Thread(target=self.refresh, daemon=True).start()
        return False

    @property
    def has_begun(self) -> bool:
        """Whether the journal says what the experiment is."""
        return bool(self.followed.history.experiment)

    def status(self) -> Status:
        """Return how the experiment stands; computed anew when a record has come, or the driver has come or gone."""
        with self.lock:
            state = self.refresh(), find_holder(self.directory) is not None
            if self._status is None or self._status[0] != state:
                self._status = state, status_of(self.followed)
            return self._status[1]

    def view(self) -> View:
        """Return what the page shows now."""
        with self.lock:
            status = self.status()
            if self._view is None or self._view.version != self.followed.version or self._view.status is not status:
                self._view = self._make_view(status)
            return self._view

    def extras(self) -> Extras:
        """Return what the page shows beyond the history."""
        unended = "killed" if self.status().holder is None else "running"
        return Extras(verdicts=list(verdicts_of(self.followed.history).values()), unended=unended)

    def _make_view(self, status: Status) -> View:
        started = time.monotonic()
        version = self.followed.version
        page = build_page(self.followed.history, self.extras(), drawn=False)
        before = {} if self._view is None else self._view.rows
        rows = {}
        for row in page.rows:
            known = before.get(row.id)
            rows[row.id] = known if known is not None and known[1] == row else (version, row)
        return View(version, status, page, rows, time.monotonic() - started)


class Experiments:
    """All experiments that are watched, by the names of their folders.

    Args:
        output: Root of what searches write.
        named: Folders of experiments; without any, all of ``output`` that there are and that come.
    """

    def __init__(self, output: Path, named: Sequence[Path] = ()) -> None:
        self.output = output
        self._named = tuple(named)
        self._lock = threading.Lock()
        self._watched: dict[str, Watched] = {directory.name: Watched(directory) for directory in named}

    def all(self) -> list[Watched]:
        """Return the experiments, the experiment whose journal was written last first."""
        with self._lock:
            for journal in () if self._named else self.output.glob(f"*/{JOURNAL_FILE}"):
                self._watched.setdefault(journal.parent.name, Watched(journal.parent))
            return sorted(self._watched.values(), key=lambda one: (-_written(one.directory), one.name))

    def begin_reading(self) -> None:
        """Begin to read the long journals of the experiments that were named, before anybody opens their pages."""
        for watched in self._watched.values():
            watched.is_at_hand()

    def expect(self, name: str) -> None:
        """Watch an experiment that is about to begin."""
        with self._lock:
            self._watched.setdefault(name, Watched(self.output / name))

    def find(self, name: str) -> Watched | None:
        """Return the experiment of a name; ``None`` where none of this name is watched."""
        # Looked up among the known names: a name never becomes a path.
        return next((watched for watched in self.all() if watched.name == name), None)


def _written(directory: Path) -> float:
    try:
        return (directory / JOURNAL_FILE).stat().st_mtime
    except OSError:
        return 0.0


def _size(directory: Path) -> int:
    try:
        return (directory / JOURNAL_FILE).stat().st_size
    except OSError:
        return 0
