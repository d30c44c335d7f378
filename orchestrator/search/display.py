"""What a person sees of a running search: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.journal.confirmation_records import ConfirmationPlanned
from orchestrator.journal.experiment_records import LimitNoted, PopulationMoved
from orchestrator.journal.history import HALF_TRAINED, NOT_BEGUN, History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.record import Record
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.journal.trial_records import CheckpointDamaged, TrialRetried, has_ended
from orchestrator.results.confirming import races_of
from orchestrator.results.pareto import goals_of
from orchestrator.results.race_words import describe_race, describe_round, race_to_dict
from orchestrator.results.sentences import statements
from orchestrator.results.summary import Summary
from orchestrator.search.pace import seconds_left
from orchestrator.tables.pareto import pareto_tables
from orchestrator.tables.terminal import draw
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import format_parameters
from trainables.config import TrialConfig

ROWS = 16
"""Trials in the live table: those that run, then those that ended last."""

PROGRESS_SECONDS = 30.0
"""How often plain output says how far the search is."""

WORDS: dict[str, str] = {
    TrialState.RUNNING: "running",
    TrialState.FINISHED: "finished",
    TrialState.STOPPED_EARLY: "stopped early",
    TrialState.DIVERGED: "diverged",
    TrialState.FAILED: "failed",
    HALF_TRAINED: "half trained",
    NOT_BEGUN: "not begun",
}
"""How a trial stands, see ``History.standing`` -> in words."""

STYLES: dict[str, str] = {
    TrialState.RUNNING: "cyan",
    TrialState.FINISHED: "green",
    TrialState.DIVERGED: "red",
    TrialState.FAILED: "red",
}


class Progress:
    """How far a stage is, and how long the rest may take at the pace of this session.

    Args:
        history: Kept up to date by others.
        total: Trials of the stage in all.
        epochs: Epochs of a whole trial.
        stage: Whose trials are counted.
    """

    def __init__(self, history: History, total: int, epochs: int, stage: Stage = Stage.SEARCH) -> None:
        self.history, self._total, self._epochs, self._stage = history, total, epochs, stage
        self._started, self._before = time.monotonic(), self._trained()

    def counts(self) -> str:
        """Return one line: trials by state, best so far, and the time left."""
        parts = [words] if (words := count_words(self.history.count(self._stage, self._total))) else []
        best = self.best()
        parts += [] if best is None else [f"best {best.first.metric} {best.value_so_far:.2f} ({best.first.id})"]
        left = self.seconds_left()
        parts += [] if left is None else [f"ETA {time.strftime('%H:%M:%S', time.gmtime(left))}"]
        return ", ".join(parts)

    def best(self) -> Point | None:
        """Return the point with the highest value so far among those that could win or still run."""
        trials = self.history.stage(self._stage)
        # What confirms a search has a seed a trial, so that each trial stands for itself.
        points = points_of(trials) if self._stage is Stage.SEARCH else [Point((trial,)) for trial in trials]
        rated = [point for point in points if point.value_so_far is not None]
        return max(rated, key=lambda point: point.value_so_far or 0.0, default=None)

    def seconds_left(self) -> float | None:
        """Return the time left if new trials are as long as ended ones; ``None`` before the first epoch."""
        trained = self._trained() - self._before
        if trained <= 0:
            return None
        pace = trained / (time.monotonic() - self._started)
        return seconds_left(self.history.stage(self._stage), self._total, pace, self._epochs)

    def _trained(self) -> int:
        return sum(trial.last_epoch for trial in self.history.stage(self._stage))


class Display:
    """Something that is told about new records and is given a turn several times a second."""

    def listen(self, record: Record) -> None:
        """Take note of a record."""

    def refresh(self) -> None:
        """Draw, if it is time to."""


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
            metric, plain = str(history.experiment["search"]["metric"]), race_to_dict(race)
            for number in range(self._rounds.get(dataset, 0), len(race.rounds)):
                say(f"{dataset}: {describe_round(plain, number + 1, metric)}")
            self._rounds[dataset] = len(race.rounds)

    def refresh(self) -> None:
        """Print how far the search is, every half a minute."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            say(self._progress.counts())


class LiveDisplay(Display):
    """A table that is drawn anew in place."""

    def __init__(self, progress: Progress, live: Live, title: str) -> None:
        self._progress, self._live, self._title = progress, live, title
        self._next = 0.0
        self._limits: dict[str, None] = {}
        self._races = race_lines(progress.history)

    def listen(self, record: Record) -> None:
        """Keep what is shown under the table: what limits how many trials run at once, and how a race stands."""
        if isinstance(record, ConfirmationPlanned) or has_ended(record):
            self._races = race_lines(self._progress.history)
        if isinstance(record, LimitNoted):
            self._limits[record.message] = None

    def refresh(self) -> None:
        """Draw, at most four times a second."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.25
            below = "\n".join((self._progress.counts(), *self._races, *self._limits))
            self._live.update(Group(trials_table(self._progress.history, self._title), Text(below)), refresh=True)


@contextmanager
def make_display(progress: Progress, title: str, *, quiet: bool) -> Iterator[Display]:
    """Show a search for the length of a ``with`` block: nothing, plain lines, or a live table on a terminal."""
    if quiet:
        yield Display()
    elif sys.stdout.isatty():
        with Live(console=make_console(), auto_refresh=False) as live:
            display = LiveDisplay(progress, live, title)
            yield display
            display.refresh()
    else:
        yield PlainDisplay(progress)


def trials_table(history: History, title: str, rows: int = ROWS) -> Table:
    """Return a table of the trials that run and of those that ended last."""
    trials = sorted(
        history.trials.values(), key=lambda trial: (not trial.has_ended, trial.ended_after or trial.created_after)
    )
    table = Table(title=title, title_justify="left")
    for heading, justify in (("trial", "left"), ("parameters", "left"), ("epoch", "right"), ("best", "right")):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    further = [goal.metric for goal in goals_of(history)[1:]]
    for metric in further:
        table.add_column(Text(metric), justify="right", overflow="fold")
    table.add_column("state")
    for trial in reversed(trials[-rows:]):
        epochs = TrialConfig.from_dict(trial.config).training.total_epochs
        best = "" if trial.best_value is None else f"{trial.best_value:.2f}"
        at_best = trial.epochs.get(trial.best_epoch or 0, {})
        others = [f"{at_best[metric]:.2f}" if metric in at_best else "" for metric in further]
        standing = history.standing(trial)
        state = Text(WORDS[standing], STYLES.get(standing, "dim"))
        parameters = format_parameters(trial.parameters)
        table.add_row(Text(trial.id), Text(parameters), f"{trial.last_epoch}/{epochs}", best, *others, state)
    return table


def race_lines(history: History) -> list[str]:
    """Return how the race on each dataset stands, and who left it."""
    metric = str(history.experiment["search"]["metric"]) if history.plans else ""
    return [
        f"{dataset}: {line}"
        for dataset, race in races_of(history).items()
        for line in describe_race(race_to_dict(race), metric)
    ]


def count_words(counts: Mapping[str, int]) -> str:
    """Return in words how many trials stand how."""
    return ", ".join(f"{counts[standing]} {words}" for standing, words in WORDS.items() if counts.get(standing))


def describe_end(trial: Trial) -> str:
    """Return in words how a trial ended."""
    parameters = format_parameters(trial.parameters)
    words = ", ".join(filter(None, (f"{WORDS[trial.state]} after epoch {trial.last_epoch}", parameters)))
    if trial.error is not None:
        return f"{words}: {trial.error}"
    return f"{words}, best {trial.metric} {trial.best_value:.2f} in epoch {trial.best_epoch}"


def print_summary(summary: Summary, show: Callable[..., None] | None = None) -> None:
    """Print the winner of each dataset, how sure that is, what could not win, and how the trials ended."""
    show = show or make_console(plain_width=160).print
    show(_winners_table(summary))
    for front in pareto_tables(summary):
        show(draw(front))
    for dataset in summary["caveats"]:
        for sentence in statements(dataset, summary):
            show(Text(f"{dataset}: {sentence}", no_wrap=True, overflow="ignore"))
    for stage in Stage:
        states = Counter(row["state"] for row in summary["trials"] if row["stage"] == stage)
        by = f"; ended by budget.{summary['ended_by']}" if stage is Stage.SEARCH and _is_limited(summary) else ""
        if states:
            show(Text(f"{stage}: {states.total()} trials: {count_words(states)}{by}"))


def _is_limited(summary: Summary) -> bool:
    return summary["ended_by"] not in (None, "trials")


def _winners_table(summary: Summary) -> Table:
    metric = summary["metric"].removeprefix("val/")
    table = Table(title=f"{summary['experiment']}: winners", title_justify="left")
    for heading in ("dataset", "model", "loss", "parameters", "trial"):
        table.add_column(heading, overflow="fold")
    for heading in ("seeds", f"val {metric}", f"test {metric}"):
        table.add_column(heading, justify="right")
    for dataset, winner in summary["winners"].items():
        test = "" if winner["test"] is None else f"{winner['test'][metric]:.2f}"
        table.add_row(
            *(Text(text) for text in (dataset, winner["model"], winner["loss"])),
            Text(format_parameters(winner["parameters"])),
            Text(winner["trial"]),
            str(winner["seeds"]) if winner["confirmed"] else "unconfirmed",
            f"{winner['val'][metric]:.2f}",
            test,
        )
    return table
