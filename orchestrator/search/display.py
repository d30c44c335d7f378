"""What a person sees of a running search: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.journal.confirmation_records import ConfirmationPlanned
from orchestrator.journal.experiment_records import LimitNoted, PopulationMoved
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.record import Record
from orchestrator.journal.trial import Stage, Trial
from orchestrator.journal.trial_records import CheckpointDamaged, EpochEnded, TrialRetried, has_ended
from orchestrator.results.confirming import races_of
from orchestrator.results.race_words import describe_race, describe_round
from orchestrator.results.sentences import statements
from orchestrator.results.summary import Summary, conclude
from orchestrator.search.heartbeat import EpochClock, Heartbeat
from orchestrator.search.pace import seconds_left
from orchestrator.search.trial_table import FEWEST_ROWS, ROWS, WORDS, common_prefix, count_words, trials_table
from orchestrator.tables.pareto import pareto_tables
from orchestrator.tables.terminal import draw
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import format_parameters

PROGRESS_SECONDS = 30.0
"""How often plain output says how far the search is."""

DRAW_SECONDS = 0.25
"""Between two drawings of the live table, at least."""

DRAW_SHARE = 20
"""So many times as long as a drawing took, the next one waits: the table of many trials takes little of the driver."""


class Progress:
    """How far a stage is, and how long the rest may take at the pace of this session.

    Args:
        history: Kept up to date by others.
        total: Trials of the stage in all.
        epochs: Epochs of a whole trial.
        stage: Whose trials are counted.
    """

    def __init__(self, history: History, total: int, epochs: int, stage: Stage = Stage.SEARCH) -> None:
        self.history, self.stage = history, stage
        self._total, self._epochs = total, epochs
        self._started, self._before = time.monotonic(), self._trained()

    def counts(self, prefix: str = "") -> list[str]:
        """Return trials by state, the best so far, and the time left, each where there is any.

        Args:
            prefix: Of the trials' ids, to be left out.
        """
        parts = [words] if (words := count_words(self.history.count(self.stage, self._total))) else []
        best = self.best()
        if best is not None:
            name = best.first.id.removeprefix(prefix)
            parts.append(f"best {best.first.metric} {best.value_so_far:.2f} ({name})")
        left = self.seconds_left()
        return parts + ([] if left is None else [f"ETA {time.strftime('%H:%M:%S', time.gmtime(left))}"])

    def best(self) -> Point | None:
        """Return the point with the highest value so far among those that could win or still run."""
        trials = self.history.stage(self.stage)
        # What confirms a search has a seed a trial, so that each trial stands for itself.
        points = points_of(trials) if self.stage is Stage.SEARCH else [Point((trial,)) for trial in trials]
        rated = [point for point in points if point.value_so_far is not None]
        return max(rated, key=lambda point: point.value_so_far or 0.0, default=None)

    def seconds_left(self) -> float | None:
        """Return the time left if new trials are as long as ended ones; ``None`` before the first epoch."""
        trained = self._trained() - self._before
        if trained <= 0:
            return None
        pace = trained / (time.monotonic() - self._started)
        return seconds_left(self.history.stage(self.stage), self._total, pace, self._epochs)

    def _trained(self) -> int:
        return sum(trial.last_epoch for trial in self.history.stage(self.stage))


class Display:
    """Something that is told about new records and is given a turn several times a second."""

    def listen(self, record: Record) -> None:
        """Take note of a record."""

    def refresh(self) -> None:
        """Draw, if it is time to."""

    def announce(self, doing: str) -> None:
        """Say what is under way that brings no record for a while."""


class PlainDisplay(Display):
    """A line for each trial that ends, and now and then one for the whole."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._next = time.monotonic() + PROGRESS_SECONDS
        self._rounds = {dataset: len(race.rounds) for dataset, race in races_of(progress.history).items()}

    def listen(self, record: Record) -> None:
        """Print a line if the record ends or restarts a trial."""
        if has_ended(record):
            trial = self._progress.history.trials[record.trial]
            say(f"{trial.id}: {describe_end(trial)}")
            self._tell_rounds(trial)
        elif isinstance(record, PopulationMoved):
            moved = ", ".join(f"{move.trial} goes on from {move.source}" for move in record.moves)
            say(f"{record.study}: epoch {record.epoch}: {moved or 'nobody moves'}")
        elif isinstance(record, TrialRetried):
            say(f"{record.trial}: starts again: {record.error}")
        elif isinstance(record, CheckpointDamaged):
            say(f"{record.trial}: goes on from an older checkpoint: {record.damage}")
        elif isinstance(record, LimitNoted):
            say(record.message)

    def _tell_rounds(self, ended: Trial) -> None:
        """Print what the rounds of a race brought that are over since the last trial ended."""
        history = self._progress.history
        for dataset, race in races_of(history).items() if ended.stage is Stage.CONFIRM else ():
            told = self._rounds.get(dataset, 0)
            for number, one in enumerate(race.rounds[told:], start=told + 1):
                say(f"{dataset}: {describe_round(one, number, history.metric)}")
            self._rounds[dataset] = len(race.rounds)

    def refresh(self) -> None:
        """Print how far the search is, every half a minute."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            say(", ".join(self._progress.counts()))

    def announce(self, doing: str) -> None:
        """Print it."""
        say(doing)


class LiveDisplay(Display):
    """A table that is drawn anew in place, with a clock that goes on by itself while nothing else happens.

    Args:
        progress: Of the stage that is shown.
        live: What draws; it draws the clock of its own accord where it refreshes by itself.
        title: Above the table.
    """

    def __init__(self, progress: Progress, live: Live, title: str) -> None:
        self._progress, self._live, self._title = progress, live, title
        self._next = 0.0
        self._limits: dict[str, None] = {}
        self._races = race_lines(progress.history)
        self._heartbeat, self._epochs = Heartbeat(), EpochClock(progress.history)
        live.update(self._drawn())

    def listen(self, record: Record) -> None:
        """Keep what is shown beside the trials: when epochs end, how a race stands, what limits trials at a time."""
        self._epochs.listen(record)
        if isinstance(record, EpochEnded):
            self._heartbeat.hear()
        if isinstance(record, ConfirmationPlanned) or has_ended(record):
            self._races = race_lines(self._progress.history)
        if isinstance(record, LimitNoted):
            self._limits[record.message] = None

    def refresh(self) -> None:
        """Draw, at most four times a second, and less often where drawing takes long."""
        started = time.monotonic()
        if started >= self._next:
            self._live.update(self._drawn(), refresh=True)
            ended = time.monotonic()
            self._next = ended + max(DRAW_SECONDS, DRAW_SHARE * (ended - started))

    def announce(self, doing: str) -> None:
        """Put it beside the clock, which goes on by itself.

        No table is made here: a handler of signals calls this while another thread adds trials to the history.
        """
        self._heartbeat.doing = doing

    def _drawn(self) -> Group:
        history, stage = self._progress.history, self._progress.stage
        below = [*self._progress.counts(common_prefix(history.stage(stage))), *self._races, *self._limits]
        # The title, the head of the table, what it leaves out, and the clock take nine lines.
        room = self._live.console.height - 9 - len(below)
        rows = max(FEWEST_ROWS, min(ROWS, room))
        table = trials_table(history, self._title, rows, stage=stage, progress=self._epochs.progress)
        return Group(table, self._heartbeat, *map(Text, below))


@contextmanager
def make_display(progress: Progress, title: str, *, quiet: bool) -> Iterator[Display]:
    """Show a search for the length of a ``with`` block: nothing, plain lines, or a live table on a terminal."""
    if quiet:
        yield Display()
    elif sys.stdout.isatty():
        with Live(console=make_console(), refresh_per_second=4) as live:
            display = LiveDisplay(progress, live, title)
            yield display
            display.refresh()
    else:
        yield PlainDisplay(progress)


def race_lines(history: History) -> list[str]:
    """Return how the race on each dataset stands, and who left it."""
    metric = history.metric if history.plans else ""
    return [f"{dataset}: {line}" for dataset, race in races_of(history).items() for line in describe_race(race, metric)]


def describe_end(trial: Trial) -> str:
    """Return in words how a trial ended."""
    parameters = format_parameters(trial.parameters)
    words = ", ".join(filter(None, (f"{WORDS[trial.state]} after epoch {trial.last_epoch}", parameters)))
    if trial.error is not None:
        return f"{words}: {trial.error}"
    return f"{words}, best {trial.metric} {trial.best_value:.2f} in epoch {trial.best_epoch}"


def print_summary(history: History, show: Callable[..., None] | None = None) -> None:
    """Print the winner of each dataset, how sure that is, what could not win, and how the trials ended."""
    summary = conclude(history)
    # A terminal gets lines of its own width, broken between words; a file gets a line a sentence.
    is_folded = show is None and sys.stdout.isatty()
    console = make_console(plain_width=160)
    show = show or console.print
    show(_winners(summary))
    for front in pareto_tables(summary):
        show(draw(front, console.width))
    for dataset in summary.caveats:
        for sentence in statements(dataset, summary):
            show(Text(f"{dataset}: {sentence}", no_wrap=not is_folded, overflow="fold" if is_folded else "ignore"))
    for stage in Stage:
        states = Counter(map(history.standing, history.stage(stage)))
        by = f"; ended by budget.{summary.ended_by}" if stage is Stage.SEARCH and _is_limited(summary) else ""
        if states:
            show(Text(f"{stage}: {states.total()} trials: {count_words(states)}{by}"))


def _is_limited(summary: Summary) -> bool:
    return summary.ended_by not in (None, "trials")


def _winners(summary: Summary) -> Group:
    """Return a table of the winners, with what may be long below: parameters and the names of trials."""
    metric = summary.metric.removeprefix("val/")
    table = Table()
    for heading in ("dataset", "model", "loss"):
        table.add_column(heading, overflow="fold")
    for heading in ("seeds", f"val {metric}", f"test {metric}"):
        table.add_column(heading, justify="right", no_wrap=True)
    for dataset, winner in summary.winners.items():
        test = "" if winner.test is None else f"{winner.test[metric]:.2f}"
        seeds = str(winner.seeds) if winner.confirmed else "unconfirmed"
        config = winner.setting.config
        texts = (dataset, config.model, config.loss, seeds, f"{winner.val[metric]:.2f}", test)
        table.add_row(*map(Text, texts))
    below = [
        f"{dataset}: {winner.trial}: {format_parameters(winner.setting.parameters) or 'defaults'}"
        for dataset, winner in summary.winners.items()
    ]
    return Group(Text(f"{summary.experiment}: winners", "italic"), table, *map(Text, below))
