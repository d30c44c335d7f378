"""The watched experiments: the experiments that the user named, or all present and future ones of an output folder."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE, read_runs
from orchestrator.journal.journal import JournalError
from orchestrator.journal.lock import find_holder
from orchestrator.report.leaderboard import Row
from orchestrator.report.page import Extras, Page, build_page
from orchestrator.results.confirmation import verdicts_of
from orchestrator.search.followed import Followed
from orchestrator.search.status import Status, status_of
from trainables.errors import UserError

SMALL = 4 * 2**20
"""Bytes of the largest journal that is read while a page waits; a longer journal is read in a thread."""


@dataclass(frozen=True)
class View:
    """The content of an experiment's page at one version of the experiment.

    Attributes:
        version: Version of the followed experiment, see ``Followed``.
        status: State of the experiment.
        page: The page without its figures.
        rows: Trial -> the version that last changed the trial's row of the leaderboard, and the row.
        seconds: Seconds that it took to make the view.
    """

    version: int
    status: Status
    page: Page
    rows: Mapping[str, tuple[int, Row]]
    seconds: float

    def rows_since(self, version: int) -> list[Row]:
        """Return the rows that have changed after a version."""
        return [row for changed, row in self.rows.values() if changed > version]


_READERS = ThreadPoolExecutor(1, "journals")
"""Reads journals that no page waits for, one at a time, because the search on the same machine goes first."""


class Watched:
    """One experiment, whose journal is read once and whose page is made once for all requests.

    Args:
        directory: Folder of the experiment; its journal need not exist yet.
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
        """Read the new records of the journal and return the version; an error is kept in ``problem``."""
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

    def is_at_hand(self, at_once: int = SMALL) -> bool:
        """Say whether the experiment can be shown at once; if not, begin to read its journal in a thread.

        Args:
            at_once: Bytes of the largest journal that may be read while the page waits.
        """
        if self._is_read or self.size <= at_once:
            return True
        if not self._is_reading:
            self._is_reading = True
            _READERS.submit(self._read_ahead)
        return False

    def _read_ahead(self) -> None:
        with suppress(UserError):
            # The page that asks next says what is wrong.
            self.status()

    @property
    def size(self) -> int:
        """Bytes of the journal that are still to be read before the experiment can be shown."""
        return 0 if self._is_read else _size(self.directory)

    @property
    def has_begun(self) -> bool:
        """Whether the journal already has the record that describes the experiment."""
        return bool(self.followed.history.experiment)

    def status(self) -> Status:
        """Return the experiment's state; computed again after a new record, or when a driver has started or ended."""
        with self.lock:
            state = self.refresh(), find_holder(self.directory) is not None
            if self._status is None or self._status[0] != state:
                self._status = state, status_of(self.followed)
            return self._status[1]

    def view(self) -> View:
        """Return the current content of the page."""
        with self.lock:
            status = self.status()
            if self._view is None or self._view.version != self.followed.version or self._view.status is not status:
                self._view = self._make_view(status)
            return self._view

    def extras(self) -> Extras:
        """Return the content of the page that is not in the history."""
        unended = "killed" if self.status().holder is None else "running"
        verdicts = list(verdicts_of(self.followed.history).values())
        return Extras(verdicts=verdicts, unended=unended, runs=read_runs(self.directory))

    def _make_view(self, status: Status) -> View:
        started = time.monotonic()
        version = self.followed.version
        page = build_page(status.history, self.extras(), drawn=False)
        before = {} if self._view is None else self._view.rows
        rows = {}
        for row in page.rows:
            known = before.get(row.id)
            rows[row.id] = known if known is not None and known[1] == row else (version, row)
        return View(version, status, page, rows, time.monotonic() - started)


class Experiments:
    """All watched experiments, by the names of their folders.

    Args:
        output: Folder under which searches write.
        named: Folders of the watched experiments; if empty, all present and future experiments of ``output``.
    """

    def __init__(self, output: Path, named: Sequence[Path] = ()) -> None:
        self.output = output
        self._named = tuple(named)
        self._lock = threading.Lock()
        self._watched: dict[str, Watched] = {directory.name: Watched(directory) for directory in named}

    def all(self) -> list[Watched]:
        """Return the experiments, sorted by the time at which their journals were last written, newest first."""
        with self._lock:
            for journal in () if self._named else self.output.glob(f"*/{JOURNAL_FILE}"):
                self._watched.setdefault(journal.parent.name, Watched(journal.parent))
            return sorted(self._watched.values(), key=lambda one: (-_written(one.directory), one.name))

    def begin_reading(self) -> None:
        """Begin to read the long journals of the named experiments, before anybody opens their pages."""
        for watched in self._watched.values():
            watched.is_at_hand()

    def expect(self, name: str) -> None:
        """Watch an experiment that is about to begin."""
        with self._lock:
            self._watched.setdefault(name, Watched(self.output / name))

    def find(self, name: str) -> Watched | None:
        """Return the watched experiment with a name, or ``None``."""
        # The name comes from a request, so it is compared with known names and never becomes a path.
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
