"""Shows a running search: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.text import Text

from orchestrator.journal.history import STANDINGS, History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.records import (
    CheckpointDamaged,
    ConcurrencyLowered,
    ConfirmationPlan,
    EpochEnded,
    EvaluatedOnTest,
    LimitNoted,
    Record,
    TrialRetried,
    TrialStarted,
    has_ended,
)
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.answers import Summary, chance_of, dataset_answers, over_datasets
from orchestrator.results.confirmation import race_names
from orchestrator.results.race import describe_race, describe_round
from orchestrator.searches.time_left import (
    PlannedWork,
    TimeLeft,
    TrainingRate,
    epoch_lengths,
    evaluation_seconds,
    work_left,
)
from orchestrator.searches.trial_table import FEWEST_ROWS, ROWS, count_words, trials_table
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import clock_text, count_text, duration_text
from orchestrator.text.wording import metric_meaning, number_text, printed, setting_text
from orchestrator.views.terminal import screen

if TYPE_CHECKING:
    from orchestrator.tuner.session import Session

PROGRESS_SECONDS, MOST_PROGRESS_SECONDS = 30.0, 300.0
"""Seconds between two lines of plain output about the progress of the search: at first, and after 100 minutes."""

PROGRESS_SHARE = 20
"""One part in this number of the time since the start passes between two such lines: a long search has a short log."""

ERROR_WIDTH = 200
"""Most characters of an error on the screen; the experiment's folder ``errors`` has the whole text."""

DRAW_SECONDS = 0.25
"""Least seconds between two drawings of the live table."""

DRAW_SHARE = 20
"""A drawing waits this many times as long as the last drawing took, so that large tables take little of the driver."""

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""Frames of the spinner."""

FRAME_SECONDS = 0.25

OVERDUE = 1.5
"""An epoch that takes longer than this many times its usual length is shown in seconds instead of per cent."""

MOST_USED = 4
"""Most datasets whose settings to use are a line each at the end of a search."""

WIDEST = 1000
"""Columns for which the end of a search is drawn where the output is no terminal."""


class Progress:
    """Progress of a stage of ``total`` trials, and how long the rest of the experiment may take.

    ``work`` is what the whole experiment trains or, where this stage is all, the epochs of a whole trial.
    """

    def __init__(self, history: History, total: int, work: PlannedWork | int, stage: Stage = Stage.SEARCH) -> None:
        self.history, self.stage, self.pace = history, stage, TrainingRate(history)
        self._total, self._work = total, work

    def counts(self) -> list[str]:
        """Return how many trials have ended, by state, the best so far, and the time left of the whole, where known."""
        ended = sum(trial.has_ended for trial in self.history.stage(self.stage))
        noun = "trials" if self.stage is Stage.SEARCH else "trainings"
        parts = [f"{self.stage}: {ended} of {self._total} {noun}"]
        parts += [words] if (words := count_words(self.history.count(self.stage, self._total))) else []
        best = self.best()
        if best is not None:
            trial = best.first
            setting = setting_text(trial.parameters)
            value = number_text(best.value_so_far(self.history.metric) or 0.0, self.history.metric)
            parts.append(f"best {printed(trial.config.loss)} {value}" + (f" ({setting})" if setting else ""))
        left = self.left()
        return parts + ([] if left is None else [str(left)])

    def best(self) -> Point | None:
        """Return the point with the highest value so far among points that could win or still run."""
        trials, metric = self.history.stage(self.stage), self.history.metric
        # In other stages each trial has a seed of its own, so each trial is a point of its own.
        points = points_of(trials) if self.stage is Stage.SEARCH else [Point((trial,)) for trial in trials]
        rated = [point for point in points if point.value_so_far(metric) is not None]
        return max(rated, key=lambda point: point.value_so_far(metric) or 0.0, default=None)

    def left(self) -> TimeLeft | None:
        """Return the time left of the whole experiment; ``None`` before the first epoch of its first start."""
        rate = self.pace.rate
        if rate is None:
            return None
        if isinstance(self._work, PlannedWork):
            trainings = self._total if self.stage is Stage.CONFIRM else None
            return self._work.left(self.history, rate, trainings=trainings)
        whole = self._work * epoch_lengths(self.history)[""]
        return TimeLeft({self.stage: work_left(self.history.stage(self.stage), self._total, whole) / rate})


class EpochClock:
    """Estimates the progress of the epochs that trials train now, of which a trial reports nothing.

    The estimate is the time since the epoch began as a share of the usual length. That is the length of the trial's
    newest epoch or, before its first, the mean over the trials of its study.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._since: dict[str, float] = {}

    def listen(self, record: Record) -> None:
        """Note when a trial began an epoch."""
        if isinstance(record, TrialStarted | EpochEnded):
            self._since[record.trial] = time.monotonic()

    def progress(self, trial: Trial) -> str:
        """Return the progress of the present epoch, such as ``+40%``; its seconds where the usual length is unknown."""
        if trial.id not in self._since:
            return ""
        passed = time.monotonic() - self._since[trial.id]
        trials = [trial] if trial.epochs else self._history.study(trial.study)
        lengths = [other.epochs[other.last_epoch].get("time/epoch_seconds") for other in trials if other.epochs]
        known = [seconds for seconds in lengths if seconds]
        if not known or passed > OVERDUE * fmean(known):
            return f"+{_ago(passed)}"
        return f"+{min(99, round(100 * passed / fmean(known)))}%"


def _ago(seconds: float) -> str:
    # A live line does not count parts of a second.
    return duration_text(max(1.0, seconds))


def spinner() -> str:
    """Return the frame of the spinner for this moment."""
    return FRAMES[int(time.monotonic() / FRAME_SECONDS) % len(FRAMES)]


class PlainDisplay:
    """Prints a line for each trial that ends, and now and then a line about the whole search."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self._next = self._started + PROGRESS_SECONDS
        self._rounds = {dataset: len(race.rounds) for dataset, race in Summary(progress.history).races.items()}

    def listen(self, record: Record) -> None:
        """Print a line if the record ends or restarts a trial."""
        self._progress.pace.listen(record)
        if has_ended(record):
            trial = self._progress.history.trials[record.trial]
            say(f"{trial.id}: {describe_end(trial)}")
            self._say_rounds(trial)
        elif isinstance(record, TrialRetried):
            say(f"{record.trial}: resumes after a failure: {shorten(record.error, ERROR_WIDTH, placeholder=' …')}")
        elif isinstance(record, ConcurrencyLowered):
            say(*memory_lines(self._progress.history))
        elif isinstance(record, CheckpointDamaged):
            say(f"{record.trial}: resumes from an older checkpoint: {record.damage}")
        elif isinstance(record, LimitNoted):
            say(record.message)

    def _say_rounds(self, ended: Trial) -> None:
        """Print the results of the rounds of a race that have ended since the last trial ended."""
        history = self._progress.history
        for dataset, race in Summary(history).races.items() if ended.stage is Stage.CONFIRM else ():
            known, names = self._rounds.get(dataset, 0), race_names(history, race)
            for number, closed in enumerate(race.rounds[known:], start=known + 1):
                say(f"{dataset} · {describe_round(closed, number, history.metric, names)}")
            self._rounds[dataset] = len(race.rounds)

    def refresh(self) -> None:
        """Print the progress of the search, every half minute at first and every five minutes in a long search."""
        now = time.monotonic()
        if now >= self._next:
            pause = (now - self._started) / PROGRESS_SHARE
            self._next = now + min(max(PROGRESS_SECONDS, pause), MOST_PROGRESS_SECONDS)
            say(" · ".join(self._progress.counts()))

    def announce(self, doing: str) -> None:
        """Print the text."""
        say(doing)


class LiveDisplay:
    """A table that is redrawn in place, with a line that ``live`` redraws by itself even while no record comes."""

    def __init__(self, progress: Progress, live: Live, title: str) -> None:
        self._progress, self._live, self._title = progress, live, title
        self._next = 0.0
        self._limits: dict[str, None] = {}
        self._races = race_lines(progress.history)
        self._epochs = EpochClock(progress.history)
        # The work before the first epoch or after a signal; the times of the start and of the newest epoch.
        self._doing, self._started, self._heard = "starting", time.monotonic(), 0.0
        live.update(self._drawn())

    def listen(self, record: Record) -> None:
        """Note ends of epochs, the state of a race and limits of trials at a time, shown beside the trials."""
        self._progress.pace.listen(record)
        self._epochs.listen(record)
        if isinstance(record, EpochEnded):
            self._heard, self._doing = time.monotonic(), ""
        if isinstance(record, ConfirmationPlan) or has_ended(record):
            self._races = race_lines(self._progress.history)
        if isinstance(record, LimitNoted):
            self._limits[record.message] = None

    def refresh(self, *, is_last: bool = False) -> None:
        """Draw, at most four times a second, and less often where drawing takes long; the last time in any case."""
        started = time.monotonic()
        if is_last or started >= self._next:
            self._live.update(self._drawn(), refresh=True)
            ended = time.monotonic()
            self._next = ended + max(DRAW_SECONDS, DRAW_SHARE * (ended - started))

    def announce(self, doing: str) -> None:
        """Put the text beside the clock.

        No table is drawn here, because a signal handler calls this while another thread may add trials to the history.
        """
        self._doing = doing

    def __rich__(self) -> Text:
        """Return the line: spinner, time since the start, and the work or the age of the newest epoch."""
        now = time.monotonic()
        said = self._doing or f"newest epoch {_ago(now - self._heard)} ago"
        return Text(f"{spinner()} {clock_text(now - self._started)} · {said}")

    def _drawn(self) -> Group:
        history, stage = self._progress.history, self._progress.stage
        below = [*self._progress.counts(), *self._races, *self._limits, *memory_lines(history)]
        # Title, head of the table, summary of the trials left out, and clock take nine lines.
        room = self._live.console.height - 9 - len(below)
        rows = max(FEWEST_ROWS, min(ROWS, room))
        table = trials_table(history, self._title, rows, stage=stage, progress=self._epochs.progress)
        return Group(table, self, *map(Text, below))


@contextmanager
def displayed(session: "Session", title: str, progress: Progress, *, quiet: bool) -> Iterator["Session"]:
    """Show the trials of a stage during a ``with`` block, which gets the session that draws them."""
    if quiet:
        yield session
        return
    listeners = session.ledger.listeners
    with ExitStack() as stack:
        display: PlainDisplay | LiveDisplay
        if sys.stdout.isatty():
            live = stack.enter_context(Live(console=make_console(), refresh_per_second=4))
            display = LiveDisplay(progress, live, title)
        else:
            display = PlainDisplay(progress)
        listeners.append(display.listen)
        stack.callback(listeners.remove, display.listen)
        yield replace(session, on_step=display.refresh, announce=display.announce)
        if isinstance(display, LiveDisplay):
            display.refresh(is_last=True)


class EvaluationProgress:
    """How far the evaluation on the test split is of the models of some trials, given by their ids."""

    def __init__(self, history: History, trials: Collection[str]) -> None:
        self._history, self._trials = history, trials
        self.total = len(trials)
        self._heard = time.monotonic()

    @classmethod
    def of(cls, history: History) -> "EvaluationProgress | None":
        """Return how far the evaluation is of all models for which the split was opened; ``None`` where it was not."""
        opened = {trial for trials in history.tests_opened.values() for trial in trials}
        return cls(history, opened) if opened else None

    @property
    def evaluated(self) -> int:
        """Number of models that have been evaluated."""
        return sum(trial in self._history.tests for trial in self._trials)

    @property
    def has_ended(self) -> bool:
        """Whether every model was evaluated."""
        return self.evaluated == self.total

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.evaluated} of {count_text(self.total, 'model')} evaluated"

    def listen(self, record: Record) -> None:
        """Note that a model has been evaluated just now."""
        if isinstance(record, EvaluatedOnTest):
            self._heard = time.monotonic()

    def line(self) -> str:
        """Return the line about it, such as ``test: 7 of 12 models evaluated · 00:00:41 left``."""
        left = (self.total - self.evaluated) * evaluation_seconds(self._history) - (time.monotonic() - self._heard)
        return f"test: {self}" + (f" · {clock_text(left)} left" if left > 0 and not self.has_ended else "")


@contextmanager
def evaluation_displayed(ledger: Ledger, trials: Sequence[Trial], *, quiet: bool) -> Iterator[None]:
    """Show during a ``with`` block how far the evaluation on test is: a line in place, or now and then a line."""
    test = EvaluationProgress(ledger.history, [trial.id for trial in trials])
    if quiet or test.has_ended:
        yield
        return
    in_place, printed = sys.stdout.isatty(), time.monotonic()

    def listen(record: Record) -> None:
        nonlocal printed
        test.listen(record)
        if not in_place and (test.has_ended or time.monotonic() - printed >= PROGRESS_SECONDS):
            printed = time.monotonic()
            say(test.line())

    def drawn() -> Text:
        return Text(test.line() if test.has_ended else f"{spinner()} {test.line()}")

    with ExitStack() as stack:
        ledger.listeners.append(listen)
        stack.callback(ledger.listeners.remove, listen)
        if in_place:
            stack.enter_context(Live(get_renderable=drawn, console=make_console(), refresh_per_second=4))
        else:
            say(test.line())
        yield


def memory_lines(history: History) -> list[str]:
    """Return the line about a limit of trials at a time that want of memory has set; none where memory sufficed."""
    if history.concurrency is None:
        return []
    return [f"memory ran out: at most {count_text(history.concurrency, 'trial')} at a time until resources are changed"]


def race_lines(history: History) -> list[str]:
    """Return the state of the race on each dataset, its newest round and the seeds of its candidates."""
    return [
        f"{dataset} · {sentence}"
        for dataset, race in Summary(history).races.items()
        for sentence in describe_race(race, history.metric, race_names(history, race))
    ]


def describe_end(trial: Trial) -> str:
    """Return in words how a trial ended."""
    setting = setting_text(trial.parameters)
    words = f"{STANDINGS[trial.state]} after epoch {trial.last_epoch}" + (f", {setting}" if setting else "")
    if trial.error is not None:
        return f"{words}: {trial.error}"
    value = number_text(trial.best_value or 0.0, trial.metric)
    return f"{words}: {trial.metric} {value} in epoch {trial.best_epoch}"


def print_summary(history: History, commands: Sequence[str] = (), width: int | None = None) -> None:
    """Print the end of a search: over the datasets, or the losses of a single dataset, with two answers.

    ``commands`` are lines at the end. The ``width`` is by default that of the terminal, or all that a pipe needs.
    """
    summary = Summary(history)
    console = make_console(plain_width=WIDEST)
    for line in end_of_search(summary, commands, width or console.width):
        console.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def use_lines(summary: Summary) -> list[str]:
    """Return a line for each dataset with the settings of its winner, as a training takes them, learning rate included.

    Of many datasets the table has the settings.
    """
    winners = summary.winners
    if len(winners) > MOST_USED:
        return []
    several = len({winner.setting.config.model for winner in winners.values()}) > 1
    lines = []
    for dataset, winner in winners.items():
        config = winner.setting.config
        # What a constructor takes, such as coefficients, and not what a search space makes it from.
        searched = {name: value for name, value in winner.setting.parameters.items() if "." in name}
        rate = {"training.learning_rate": config.training.learning_rate}
        setting = setting_text({**config.loss_parameters, **searched, **rate})
        names = f"{printed(config.model)} {printed(config.loss)}" if several else printed(config.loss)
        about = f" on {printed(Path(dataset).name)}" if len(winners) > 1 else ""
        lines.append(f"use{about}{'' if winner.confirmed else ' (unconfirmed)'}: {names}, {setting}")
    return lines


def end_of_search(summary: Summary, commands: Sequence[str], width: int) -> list[Text]:
    """Return the end of a search as lines, at most 15 on a terminal of 100 columns."""
    datasets = summary.datasets
    if not datasets:
        return [Text(f"{summary.history.name}: no trial has begun")]
    answers = over_datasets(summary) if len(datasets) > 1 else dataset_answers(summary, datasets[0])
    first, further = answers[0], answers[1:2]
    sentences = [f"{answer.question} {answer.headline}" for answer in further] or list(first.notes[:1])
    sentences = [*use_lines(summary), *sentences]
    caveats = sum(
        len(summary.caveats.get(name, ())) + (len(summary.verdicts[name].warnings) if name in summary.verdicts else 0)
        for name in datasets
    )
    verdict = summary.verdicts.get(datasets[0])
    metric = summary.history.metric if verdict is None else verdict.metric
    models = {trial.config.model for trial in summary.history.trials.values()}
    about = (
        Path(datasets[0]).name if len(datasets) == 1 else summary.history.name,
        printed(models.pop()) if len(models) == 1 else "",
    )
    chances = (chance_of(summary, name) for name in datasets) if metric == "test/rsum" else ()
    measure = metric_meaning(metric, *(chance for chance in chances if chance is not None))
    counted = f"{count_text(caveats, 'caveat')}; " if caveats else ""
    closing = [f"{counted}{commands[0]}", *commands[1:]] if commands else []
    return screen(first, about, measure, sentences, closing, width)
