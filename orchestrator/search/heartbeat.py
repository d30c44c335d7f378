"""The moving parts of the live table: a clock, a spinner, and the progress of epochs."""

import time
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

from rich.text import Text

from orchestrator.journal.history import History
from orchestrator.journal.records import EpochEnded, Record, TrialStarted
from orchestrator.journal.trial import Trial
from orchestrator.text.values import clock_text

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""Frames of the spinner."""

FRAME_SECONDS = 0.25

OVERDUE = 1.5
"""An epoch that takes longer than this many times its usual length is shown in seconds instead of per cent."""


class Heartbeat:
    """A line that rich redraws by itself several times a second, whatever the search is doing.

    Attributes:
        doing: Work before the first epoch, and after the search is told to stop.
    """

    def __init__(self) -> None:
        self.doing = "starting"
        self._started = time.monotonic()
        self._heard: float | None = None

    def hear(self) -> None:
        """Note that an epoch has ended just now."""
        self._heard, self.doing = time.monotonic(), ""

    def __rich__(self) -> Text:
        """Return the line: spinner, time since the start, and the age of the newest epoch."""
        now = time.monotonic()
        heard = "" if self._heard is None else f"newest epoch {_ago(now - self._heard)} ago"
        said = self.doing or heard
        return Text(f"{spinner()} {clock_text(now - self._started)}" + (f" · {said}" if said else ""))


class EpochClock:
    """Estimates the progress of the epochs that trials train now, from the lengths of earlier epochs.

    A trial reports nothing inside an epoch. The estimate is the time since the epoch began as a share of the usual
    length: the length of the trial's newest epoch or, before its first, the median over the trials of its study.

    Args:
        history: History of the experiment, which others keep up to date.
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
        """Return the progress of the present epoch, such as ``+40%``; its seconds where the usual length is unknown."""
        if trial.id not in self._since:
            return ""
        passed = time.monotonic() - self._since[trial.id]
        others = self._studies.get(trial.study)
        usual = self._newest.get(trial.id) or (median(others.values()) if others else None)
        if usual is None or passed > OVERDUE * usual:
            return f"+{_ago(passed)}"
        return f"+{min(99, round(100 * passed / usual))}%"


def spinner() -> str:
    """Return the frame of the spinner for this moment."""
    return FRAMES[int(time.monotonic() / FRAME_SECONDS) % len(FRAMES)]


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
