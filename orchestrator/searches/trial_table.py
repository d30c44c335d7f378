"""The trials of a stage as a table for a terminal of any width: running trials first, then the best; no line wraps."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_

from rich.console import Group
from rich.table import Table
from rich.text import Text

from orchestrator.journal.history import STANDINGS, History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.analyses import goals_of
from orchestrator.text.values import format_parameters, short_names
from orchestrator.text.wording import metric_text

ROWS = 16
"""Trials in a table that fits on a screen."""

FEWEST_ROWS = 4
"""Least trials in a table, however low the terminal."""

STYLES: dict[str, str] = {
    TrialState.RUNNING: "cyan",
    TrialState.FINISHED: "green",
    TrialState.DIVERGED: "red",
    TrialState.FAILED: "red",
}


def count_words(counts: Mapping[str, int]) -> str:
    """Return in words how many trials have each standing."""
    return ", ".join(f"{counts[standing]} {words}" for standing, words in STANDINGS.items() if counts.get(standing))


def brief_names(trials: Iterable[Trial]) -> tuple[dict[str, str], str]:
    """Return id -> name of each trial without the parts of its study's name that all studies share, and these parts.

    Example:
        ``pets-vsepp-nt_xent-0000`` and ``birds-vsepp-triplet-0000`` are ``pets-nt_xent-0000`` and
        ``birds-triplet-0000``; the shared part is ``vsepp``. The trials of a single study are their numbers.
    """
    studies = {trial.id: trial.study for trial in trials}
    parts = {study: study.split("-") for study in studies.values()}
    # A dataset's name may have a dash; the parts of names of different lengths are not comparable.
    alike = len({len(names) for names in parts.values()}) == 1
    shared = [alike and len(set(column)) == 1 for column in zip(*parts.values(), strict=False)]
    kept = {study: [*compress(names, map(not_, shared)), *names[len(shared) :]] for study, names in parts.items()}
    names = {name: "-".join([*kept[study], name.removeprefix(f"{study}-")]) for name, study in studies.items()}
    return names, "-".join(compress(next(iter(parts.values()), []), shared))


def trials_table(
    history: History,
    title: str,
    rows: int | None = ROWS,
    *,
    stage: Stage = Stage.SEARCH,
    progress: Callable[[Trial], str] = lambda trial: "",
) -> Group:
    """Return a table of the trials of a stage, with a title above, and below a count of the trials that it leaves out.

    Trials that have not ended come first, then the best; ``rows=None`` shows all. ``progress`` returns a text about the
    epoch that a trial trains now, which may be empty.
    """
    trials = history.stage(stage)
    shown = _chosen(trials, len(trials) if rows is None else rows)
    names, shared = brief_names(trials)
    below = [f"trials without {shared}, which all their names have"] if shared else []
    if len(shown) < len(trials):
        kept = {trial.id for trial in shown}
        others = Counter(history.standing(trial) for trial in trials if trial.id not in kept)
        below.append(f"and {others.total():,} more: {count_words(others)}")
    objectives = [goal.metric for goal in goals_of(history)[1:]]
    table = _columns(objectives)
    for trial in shown:
        table.add_row(*_cells(history, trial, names[trial.id], objectives, progress))
    return Group(Text(title, "italic"), *([table] if shown else []), *(Text(line, "dim") for line in below))


def _chosen(trials: Sequence[Trial], rows: int) -> list[Trial]:
    """Return the trials that have not ended, the newest first, then the best of the others."""
    going = [trial for trial in trials if not trial.has_ended][::-1]
    ended = sorted((trial for trial in trials if trial.has_ended), key=_worst_last)
    # Some of the best trials are shown however many trials run.
    room = max(rows - len(ended), (rows + 1) // 2)
    return [*going[:room], *ended[: max(0, rows - min(len(going), room))]]


def _worst_last(trial: Trial) -> tuple[bool, bool, float]:
    """Return a sort key: finished trials with the highest value first, then the trials that cannot win."""
    value = trial.best_value
    return trial.state is not TrialState.FINISHED, value is None, -(value or 0.0)


def _columns(objectives: Sequence[str]) -> Table:
    # Without lines, so that a terminal of 80 columns has room for parameters.
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("trial", no_wrap=True)
    # Only this column shrinks on a narrow terminal; its texts stay on one line.
    table.add_column("parameters", overflow="ellipsis", min_width=12)
    table.add_column("epoch", justify="right", no_wrap=True, min_width=5)
    table.add_column("best", justify="right", no_wrap=True)
    for metric in objectives:
        table.add_column(Text(metric), justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    return table


def _cells(
    history: History, trial: Trial, name: str, objectives: Sequence[str], progress: Callable[[Trial], str]
) -> list[Text]:
    best = "" if trial.best_value is None else metric_text(trial.metric, trial.best_value)
    at_best = trial.epochs.get(trial.best_epoch or 0, {})
    others = [metric_text(metric, at_best[metric]) if metric in at_best else "" for metric in objectives]
    standing = history.standing(trial)
    inside = progress(trial) if standing == TrialState.RUNNING else ""
    epoch = f"{trial.last_epoch}/{trial.total_epochs}" + (f" {inside}" if inside else "")
    parameters = Text(format_parameters(short_names(trial.parameters)), no_wrap=True, overflow="ellipsis")
    state = Text(STANDINGS[standing], STYLES.get(standing, "dim"))
    return [Text(name), parameters, *map(Text, (epoch, best, *others)), state]
