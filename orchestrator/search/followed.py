"""Follows an experiment: its history, its use of the budget and its plateau, kept up to date record by record."""

from pathlib import Path

from orchestrator.experiment.sections import Budget
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.reader import JournalReader, JournalReplacedError
from orchestrator.journal.records import EpochEnded, ExperimentStarted, Record
from orchestrator.search.budget import Meter
from orchestrator.search.time_left import blended_rate, epoch_seconds


class Followed:
    """The state of an experiment according to its journal so far.

    Args:
        directory: The experiment's directory; its journal may not exist yet.

    Attributes:
        history: History up to the newest record that was read.
        meter: Use of the budget, and how long each study has been without a better trial.
        version: Records read, over all journals that this directory had; it only grows.
        generation: How often the journal was replaced by another.
        work: Seconds of the epochs that were trained, over all starts, see ``time_left``.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = self.generation = 0
        self._begin()

    def _begin(self) -> None:
        self._reader = JournalReader(self.directory / JOURNAL_FILE)
        self.history = History(str(self.directory / JOURNAL_FILE))
        self.meter = Meter(Budget(), self.history)
        self.work = 0.0
        self._before = (0.0, 0.0)

    def read_on(self) -> bool:
        """Read the new records; say whether there were any.

        Raises:
            JournalError: If the journal is damaged.
        """
        if not self._reader.has_news():
            return False
        before = self.version
        try:
            self._take_in()
        except JournalReplacedError:
            self._begin()
            self.version, self.generation = self.version + 1, self.generation + 1
            self._take_in()
        return self.version > before

    def _take_in(self) -> None:
        for record in self._reader.read_on():
            self._apply(record)

    def _apply(self, record: Record) -> None:
        self.version += 1
        self.history.apply(record)
        if isinstance(record, EpochEnded):
            self.work += epoch_seconds(record.metrics)
        elif isinstance(record, ExperimentStarted):
            self._before = self.work, self.history.spending.training_seconds

    @property
    def rate(self) -> float | None:
        """Seconds of epochs that are trained in a second of the newest start; ``None`` before the first epoch."""
        work, seconds = self._before
        return blended_rate(self.work - work, self.history.spending.training_seconds - seconds, self._before)
