"""The watched experiments: named experiments, or all present and future experiments of an output folder."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.journal.directory import (
    JOURNAL_FILE,
    Place,
    find_experiments,
    path_below,
    read_error,
    read_places,
    read_runs,
)
from orchestrator.journal.journal import JournalError
from orchestrator.journal.lock import find_holder
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.leaderboard import TrialRow
from orchestrator.report.page import Page
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, headline_of
from orchestrator.searches.status import Followed, Status
from orchestrator.searches.trial_table import count_words
from orchestrator.text.wording import metric_text, setting_text
from trainables.errors import ConfigError, UserError

FAILURES = 20
"""Most failed or diverged trials that are shown; the newest are shown."""

RERUNS = 5
"""Most reruns of a suite that are shown; the newest are shown."""

RUNNING = 64
"""Most running trials that are shown."""


def stages_of(status: Status) -> list[tuple[str, int, int, str]]:
    """Return name, ended trials, all trials, and the trials by state in words, of each stage that has begun.

    The evaluation on test is a stage.
    """
    shown = [
        (str(stage.stage), stage.ended, stage.total, f"{stage.ended:,} of {stage.total:,} ended: {words}")
        for stage in status.stages
        for words in [count_words(stage.states)]
    ]
    test = status.test
    return shown if test is None else [*shown, ("test", test.evaluated, test.total, str(test))]


_READERS = ThreadPoolExecutor(1, "journals")
"""Reads journals beside the pages, one at a time, because the search on the same machine goes first."""


class Watched:
    """One experiment, whose journal is read once and whose page is made once for all requests.

    ``status``, ``summary``, ``headlines``, ``page`` and ``live`` are of the moment of the last ``seen``, and are made
    when they are first asked for. The lock must be held then.

    Args:
        directory: Folder of the experiment; its journal need not exist yet.
        name: Name among the watched experiments, part of the page's address; by default that of the folder.
    """

    def __init__(self, directory: Path, name: str = "") -> None:
        self.name = name or directory.name
        self.directory = directory
        self.lock = threading.RLock()
        self.followed = Followed(directory)
        self.problem: str | None = None
        self._state: tuple[object, ...] = ()
        self._reading: Future[None] | None = None
        self._rows: dict[str, tuple[int, TrialRow]] = {}

    def seen(self) -> "Watched":
        """Read the new records of the journal, and return the experiment; an error is kept in ``problem``."""
        with self.lock:
            try:
                self.followed.read_on()
                self.problem = None
            except JournalError as error:
                self.problem = str(error)
            except OSError as error:
                self.problem = f"{self.directory}: {error.strerror}"
            state = self.followed.version, find_holder(self.directory) is not None, self.problem
            if self._state != state:
                self._state = state
                for part in ("status", "summary", "headlines", "page", "live"):
                    vars(self).pop(part, None)
            return self

    @cached_property
    def status(self) -> Status:
        """How far the experiment is."""
        return Status(self.followed)

    @cached_property
    def summary(self) -> Summary:
        """The results so far."""
        return Summary(self.status.history)

    @cached_property
    def headlines(self) -> list[Answer]:
        """The first answer of each dataset; a rerun has none, because its own page compares it."""
        history = self.status.history
        datasets = self.summary.datasets if history.experiment and not history.is_rerun else ()
        return [headline_of(self.summary, dataset) for dataset in datasets]

    @cached_property
    def page(self) -> Page:
        """The page, whose figures are made when they are requested."""
        unended = "killed" if self.status.holder is None else "running"
        return Page(self.status.history, unended=unended, runs=read_runs(self.directory))

    @cached_property
    def live(self) -> dict[str, Any]:
        """The parts that are shown beside the page.

        ``problem`` is why the journal cannot be read. ``running`` has each running trial with its setting, its best
        value so far, its machine and process. ``failed`` has each failed or diverged trial, the newest first, and
        whether the last output of its process is kept.
        """
        history = self.status.history
        running = [trial for trial in history.running() if trial.id in history.spending.actors]
        places = read_places(self.directory) if running else {}
        ends = (TrialState.FAILED, TrialState.DIVERGED)
        failed = [trial for trial in history.trials.values() if trial.state in ends]
        failed.sort(key=lambda trial: -(trial.ended_after or 0.0))
        return {
            "status": self.status,
            "has_begun": bool(history.experiment),
            "problem": self.problem,
            "stages": stages_of(self.status),
            "running": [_running(trial, places.get(trial.id)) for trial in running[:RUNNING]],
            "not_shown": max(0, len(running) - RUNNING),
            "failed": [(trial, read_error(self.directory, trial.id) is not None) for trial in failed[:FAILURES]],
            "failures": len(failed),
        }

    def reading(self) -> "Future[None]":
        """Begin to read the journal in a thread, once; the future is done when the experiment can be shown at once."""
        if self._reading is None:
            self._reading = _READERS.submit(self._read)
        return self._reading

    def _read(self) -> None:
        # The page that asks next says what is wrong.
        with self.lock, suppress(UserError):
            _ = self.seen().headlines

    def version(self) -> str:
        """Return a text that changes when the experiment's pages change; empty while its journal is being read."""
        return " ".join(map(str, self.seen()._state)) if self.reading().done() else ""

    def rows_since(self, version: int) -> list[TrialRow]:
        """Return the rows of the page's leaderboard that have changed after a version; the lock must be held."""
        rows = {row.id: row for row in self.page.rows}
        kept = {name: known for name, known in self._rows.items() if rows.get(name) == known[1]}
        self._rows = {name: kept.get(name, (self.followed.version, row)) for name, row in rows.items()}
        return [row for changed, row in self._rows.values() if changed > version]


def _running(trial: Trial, place: Place | None) -> tuple[Trial, str, str, str]:
    best = metric_text(trial.metric, trial.best_value)
    where = "after its first epoch" if place is None else f"{place.host}, {place.pid}"
    return trial, setting_text(trial.parameters), best, where


def newest_reruns(output: Path) -> list[Path]:
    """Return the folders of the experiments of an output folder; of the reruns of each suite, the newest alone."""
    suites: dict[str, list[Path]] = {}
    for directory in find_experiments(output):
        suites.setdefault(directory.relative_to(output).parts[0], []).append(directory)
    # Reruns are named by their starts.
    return [directory for directories in suites.values() for directory in directories[-RERUNS:]]


class Experiments:
    """All watched experiments, by the paths of their folders below the output folder.

    Args:
        output: Folder under which searches write.
        named: Folders of the watched experiments; if empty, all present and future experiments of ``output``.

    Raises:
        ConfigError: If two of the named folders have one name, by which their pages are found.
    """

    def __init__(self, output: Path, named: Sequence[Path] = ()) -> None:
        self.output = output
        self._named = tuple(named)
        self._lock = threading.Lock()
        self._watched: dict[str, Watched] = {}
        for directory in named:
            first = self._watched.setdefault(directory.name, Watched(directory)).directory
            if first.resolve() != directory.resolve():
                raise ConfigError(f"{first} and {directory} have one name; watch one of them at a time")

    def all(self) -> list[Watched]:
        """Return the experiments, sorted by the time at which their journals were last written, newest first."""
        with self._lock:
            for directory in () if self._named else newest_reruns(self.output):
                # An address has a folder for each slash, so a name has none.
                name = path_below(directory, self.output).replace("/", ":")
                self._watched.setdefault(name, Watched(directory, name))
            return sorted(self._watched.values(), key=lambda watched: (-_written(watched.directory), watched.name))

    def expect(self, name: str) -> None:
        """Watch an experiment that is about to begin."""
        with self._lock:
            self._watched.setdefault(name, Watched(self.output / name))

    def find(self, name: str) -> Watched | None:
        """Return the watched experiment with a name, or ``None``."""
        # The name comes from a request, so it is compared with known names and never becomes a path.
        return next((watched for watched in self.all() if watched.name == name), None)


def _written(directory: Path) -> float:
    """Return when the journal of an experiment was last written; 0 where there is none."""
    try:
        return (directory / JOURNAL_FILE).stat().st_mtime
    except OSError:
        return 0.0
