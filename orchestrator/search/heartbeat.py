"""What moves in the live table between two records: the clock, a sign of life, and how far an epoch is."""

import time
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

from rich.text import Text

from orchestrator.journal.history import History
from orchestrator.journal.record import Record
from orchestrator.journal.trial import Trial
from orchestrator.journal.trial_records import EpochEnded, TrialStarted

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""Of the sign of life, one after the other."""

FRAME_SECONDS = 0.25

OVERDUE = 1.5
"""So many times its usual length an epoch may take before its seconds are shown instead of a share."""


class Heartbeat:
    """A line that rich draws anew by itself several times a second, whatever the search is doing.

    Attributes:
        doing: What is under way before the first epoch, and once the search is told to stop.
    """

    def __init__(self) -> None:
        self.doing = "starting"
        self._started = time.monotonic()
        self._heard: float | None = None

    def hear(self) -> None:
        """Note that an epoch has ended just now."""
        self._heard, self.doing = time.monotonic(), ""

    def __rich__(self) -> Text:
        """Return the line: sign of life, time since the start, and what was heard last."""
        now = time.monotonic()
        frame = FRAMES[int(now / FRAME_SECONDS) % len(FRAMES)]
        heard = "" if self._heard is None else f"newest epoch {_ago(now - self._heard)} ago"
        said = self.doing or heard
        return Text(f"{frame} {_clock(now - self._started)}" + (f" · {said}" if said else ""))


class EpochClock:
    """How far the epochs are that trials train now, by the pace of the epochs before.

    A trial says nothing inside an epoch, so that this is an estimate: the share of the usual length of an epoch that
    has passed. The usual length is that of the trial's own newest epoch, or before its first the median over the trials
    of its study.

    Args:
        history: Kept up to date by others.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._since: dict[str, float] = {}
        self._newest: dict[str, float] = {}
        self._studies: dict[str, dict[str, float]] = defaultdict(dict)

    def listen(self, record: Record) -> None:
        """Note when a trial began an epoch, and how long its epochs are."""
        if isinstance(record, TrialStarted):
            self._since[record.trial] = time.monotonic()
        if isinstance(record, EpochEnded):
            self._since[record.trial] = time.monotonic()
            self._note(record.trial, self._history.trials[record.trial].study, record.metrics)

    def _note(self, trial: str, study: str, metrics: Mapping[str, float]) -> None:
        if seconds := metrics.get("time/epoch_seconds"):
            self._newest[trial] = self._studies[study][trial] = seconds

    def progress(self, trial: Trial) -> str:
        """Return ``+40%`` of the epoch under way, or its seconds where nobody knows how long it takes."""
        if trial.id not in self._since:
            return ""
        passed = time.monotonic() - self._since[trial.id]
        others = self._studies.get(trial.study)
        usual = self._newest.get(trial.id) or (median(others.values()) if others else None)
        if usual is None or passed > OVERDUE * usual:
            return f"+{_ago(passed)}"
        return f"+{min(99, round(100 * passed / usual))}%"


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
