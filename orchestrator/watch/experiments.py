"""The watched experiments: the experiments that the user named, or all present and future ones of an output folder."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journal.directory import JOURNAL_FILE, Place, read_error, read_places, read_runs
from orchestrator.journal.journal import JournalError
from orchestrator.journal.lock import find_holder
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.leaderboard import Row
from orchestrator.report.page import Page, build_page
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, headline_of
from orchestrator.search.status import Followed, Status, status_of
from orchestrator.search.trial_table import count_words
from orchestrator.text.wording import metric_text, setting_text
from trainables.errors import UserError

SMALL = 4 * 2**20
"""Bytes of the largest journal that is read while a page waits; a longer journal is read in a thread."""


FAILURES = 20
"""Most failed or diverged trials that are shown; the newest are shown."""

RUNNING = 64
"""Most running trials that are shown."""


@dataclass(frozen=True)
class Live:
    """The state of an experiment now, beside its page.

    Attributes:
        has_begun: Whether the journal has the record that describes the experiment.
        problem: Why the journal cannot be read; ``None`` for a readable journal.
        stages: Name, ended trials, all trials, and the trials by state in words, of each stage that has begun.
        running: Running trial, its setting, its best value so far, its machine and process.
        not_shown: Number of running trials that are not in ``running``.
        failed: Failed or diverged trial, and whether the last output of its process is kept; the newest first.
    """

    status: Status
    has_begun: bool
    problem: str | None
    stages: Sequence[tuple[str, int, int, str]]
    running: Sequence[tuple[Trial, str, str, str]]
    not_shown: int
    failed: Sequence[tuple[Trial, bool]]
    failures: int


def stages_of(status: Status) -> list[tuple[str, int, int, str]]:
    """Return the stages that have begun, the evaluation on test included, see ``Live``."""
    stages = [(str(stage.stage), stage.ended, stage.total) for stage in status.stages]
    shown = [
        (name, ended, total, f"{ended:,} of {total:,} ended: {count_words(stage.states)}")
        for (name, ended, total), stage in zip(stages, status.stages, strict=True)
    ]
    test = status.test
    return shown if test is None else [*shown, ("test", test.evaluated, test.total, str(test))]


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
        self._page: tuple[Status, Page] | None = None
        self._headlines: tuple[Status, list[Answer]] | None = None
        self._rows: dict[str, tuple[int, Row]] = {}
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
        return 0 if self._is_read else _journal_stat(self.directory)[1]

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

    def version(self) -> str:
        """Return a text that changes when the experiment's pages change; empty while its journal is being read."""
        if not self._is_read:
            return ""
        with suppress(UserError):
            self.status()
        return f"{self.followed.version} {self._status[0][1] if self._status else ''} {self.problem or ''}"

    def headlines(self) -> list[Answer]:
        """Return the first answer of each dataset; made again when the state has changed."""
        with self.lock:
            status = self.status()
            if self._headlines is None or self._headlines[0] is not status:
                summary = Summary(status.history)
                datasets = summary.datasets if status.history.experiment else ()
                self._headlines = status, [headline_of(summary, dataset) for dataset in datasets]
            return self._headlines[1]

    def page(self) -> Page:
        """Return the page without its figures; made again when the state has changed."""
        with self.lock:
            status = self.status()
            if self._page is None or self._page[0] is not status:
                unended = "killed" if status.holder is None else "running"
                runs = read_runs(self.directory)
                self._page = status, build_page(status.history, unended=unended, runs=runs, drawn=False)
                rows = {row.id: row for row in self._page[1].rows}
                kept = {name: known for name, known in self._rows.items() if rows.get(name) == known[1]}
                self._rows = {name: kept.get(name, (self.followed.version, row)) for name, row in rows.items()}
            return self._page[1]

    def rows_since(self, version: int) -> list[Row]:
        """Return the rows of the leaderboard of the newest page that have changed after a version."""
        return [row for changed, row in self._rows.values() if changed > version]

    def live(self) -> Live:
        """Return the state of the experiment now."""
        with self.lock:
            status = self.status()
            history = status.history
            running = [trial for trial in history.running() if trial.id in history.actors]
            places = read_places(self.directory) if running else {}
            ends = (TrialState.FAILED, TrialState.DIVERGED)
            failed = [trial for trial in history.trials.values() if trial.state in ends]
            failed.sort(key=lambda trial: -(trial.ended_after or 0.0))
            return Live(
                status=status,
                has_begun=self.has_begun,
                problem=self.problem,
                stages=stages_of(status),
                running=[_running(trial, places.get(trial.id)) for trial in running[:RUNNING]],
                not_shown=max(0, len(running) - RUNNING),
                failed=[(trial, read_error(self.directory, trial.id) is not None) for trial in failed[:FAILURES]],
                failures=len(failed),
            )


def _running(trial: Trial, place: Place | None) -> tuple[Trial, str, str, str]:
    best = "" if trial.best_value is None else metric_text(trial.metric, trial.best_value)
    where = "after its first epoch" if place is None else f"{place.host}, {place.pid}"
    return trial, setting_text(trial.parameters), best, where


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
            return sorted(self._watched.values(), key=lambda one: (-_journal_stat(one.directory)[0], one.name))

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


def _journal_stat(directory: Path) -> tuple[float, int]:
    """Return when the journal of an experiment was last written, and its bytes; zeros where there is none."""
    try:
        found = (directory / JOURNAL_FILE).stat()
    except OSError:
        return 0.0, 0
    return found.st_mtime, found.st_size
