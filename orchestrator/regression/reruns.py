"""The reruns of a suite: their folders, their summaries, and how the newest becomes the reference.

A rerun has a folder in the suite's output folder, named by its start. It is finished, unfinished (and resumed) or dated
in the future. The numbers that are compared come from its journal. An accepted rerun is the reference of later reruns.
"""

import getpass
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import data_key
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import SuiteStarted
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.regression.accepted import (
    Accepted,
    AcceptedError,
    CellRuns,
    Conditions,
    FirstRuns,
    asks_the_same,
    read_accepted,
    read_runs,
    write_accepted,
)
from orchestrator.regression.suite import Suite
from trainables.errors import UserError
from trainables.extras import require
from trainables.files import read_state

SUMMARY = "summary.json"
"""File of a rerun that has ended; a rerun without this file is resumed."""

ALARMS = ("regression", "changed", "failed")
"""Findings for which ``regress`` ends with exit code 5."""


@dataclass(frozen=True)
class EndedRerun:
    """The summary of a rerun that has ended.

    Attributes:
        ended: When the rerun ended, in seconds since the Unix epoch.
        finding: The worst finding of the rerun.
        runs: Name of a cell -> its runs; without cells whose conditions are unknown, as in files of older versions.
    """

    ended: float
    finding: str
    runs: Mapping[str, CellRuns]
    content: Mapping[str, Any]

    @property
    def is_alarm(self) -> bool:
        """Whether the rerun found a regression, other gradients, or a failure."""
        return self.finding in ALARMS

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "EndedRerun":
        """Return the summary with the content of a file.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: If the content is no summary.
        """
        cells = content.get("runs", {}).items()
        runs = {name: read_runs(cell) for name, cell in cells if "conditions" in cell}
        return cls(float(content["ended"]), str(content.get("finding", "")), runs, content)


def read_summary(directory: Path) -> EndedRerun:
    """Return the summary of a finished rerun.

    Raises:
        UserError: If the file is damaged.
    """
    try:
        return EndedRerun.of(read_state(directory / SUMMARY))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{directory / SUMMARY}: damaged; remove {directory} to rerun the suite") from None


STAMP = "%Y%m%dT%H%M%SZ"
"""Format of the name of a rerun's folder: the time at which the rerun started, in UTC, so that names sort by time."""

SKEW = 300.0
"""Seconds by which the clocks of two machines that share an output folder may differ."""


@dataclass(frozen=True)
class Past:
    """The reruns of a suite, each group oldest first.

    Attributes:
        finished: Folders with a summary.
        started: Folders with a journal, including the folders of finished reruns.
        future: Folders of reruns that are dated in the future; these folders are in no other group.
    """

    finished: tuple[Path, ...]
    started: tuple[Path, ...]
    future: tuple[Path, ...]

    @property
    def warning(self) -> str | None:
        """A sentence about the reruns that are dated in the future, or ``None``."""
        if not self.future:
            return None
        names = ", ".join(path.name for path in self.future)
        return (
            f"{self.future[0].parent}: ignored reruns that are dated in the future: {names}; this machine's clock is "
            f"wrong, or was wrong when they ran: set the clock, or remove them"
        )


def past_reruns(home: Path, *, now: float | None = None) -> Past:
    """Return the reruns of a suite.

    Args:
        home: The suite's folder in the output folder.
        now: Seconds since the Unix epoch; by default the clock of this machine.
    """
    latest = (time.time() if now is None else now) + SKEW
    begun = {path.parent: _started(path.parent) for name in (JOURNAL_FILE, SUMMARY) for path in home.glob(f"*/{name}")}
    # A folder whose name is no date is a copy that a person made, not a rerun.
    folders = sorted(path for path, started in begun.items() if started is not None)
    future = {path for path in folders if (begun[path] or 0.0) > latest}
    finished = [path for path in folders if path not in future and (path / SUMMARY).exists()]
    # The clock may have been set forward while a rerun ran. Only the newest rerun's end is used (`find_fresh`), so only
    # the newest reruns are checked.
    while finished and read_summary(finished[-1]).ended > latest:
        future.add(finished.pop())
    started = [path for path in folders if path not in future and (path / JOURNAL_FILE).exists()]
    return Past(tuple(finished), tuple(started), tuple(sorted(future)))


def still_alarms(summary: EndedRerun, accepted: str | None) -> bool:
    """Say whether a finished rerun found a regression or a failure, and no reference has been accepted since then.

    A schedule that runs the command every hour must fail until the regression is fixed or accepted, even if no rerun is
    due.

    Args:
        summary: The rerun's summary.
        accepted: When the reference was accepted, ISO 8601; ``None`` without a reference.
    """
    since = accepted is not None and datetime.fromisoformat(accepted).timestamp() > summary.ended
    return summary.is_alarm and not since


def name_rerun(home: Path, *, now: float | None = None) -> Path:
    """Return the folder of a rerun that starts now.

    A rerun that starts in the same second as another rerun gets the next free second: each rerun needs its own folder,
    and the names of the folders must sort by the order of the starts.

    Args:
        home: The suite's folder in the output folder.
        now: Seconds since the Unix epoch; by default the clock of this machine.
    """
    start = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    while (directory := home / f"{start:{STAMP}}").exists():
        start += timedelta(seconds=1)
    return directory


def find_fresh(finished: Sequence[Path], if_due: float | None, *, now: float | None = None) -> Path | None:
    """Return the newest finished rerun if that rerun ended less than ``if_due`` seconds ago."""
    if if_due is None or not finished:
        return None
    age = (time.time() if now is None else now) - read_summary(finished[-1]).ended
    return finished[-1] if age < if_due else None


def _started(directory: Path) -> float | None:
    """Return the date in the name of a rerun's folder; ``None`` where the name is no date."""
    try:
        return datetime.strptime(directory.name, STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def cell_runs(suite: Suite, history: History, cell_of: Mapping[str, str]) -> dict[str, CellRuns]:
    """Return the runs of every cell.

    Args:
        suite: The suite that is rerun.
        history: The history of the rerun.
        cell_of: Name of a study -> title of the study's cell.
    """
    trials: dict[str, list[Trial]] = {cell.title: [] for cell in suite.cells}
    for trial in history.stage(Stage.REGRESS):
        trials[cell_of[trial.study]].append(trial)
    found: dict[str, CellRuns] = {}
    for cell in suite.cells:
        mine = trials[cell.title]
        found[cell.title] = CellRuns(
            conditions=_conditions(suite, cell.title, history),
            values={trial.config.seed: _values(trial, history) for trial in mine if trial.state is TrialState.FINISHED},
            missing={trial.config.seed: _fate(trial) for trial in mine if trial.state is not TrialState.FINISHED},
        )
    return found


def _values(trial: Trial, history: History) -> dict[str, float]:
    """Return the scores of the best epoch, and training loss and COCOS counts of the first and of the last epoch."""
    best = trial.epochs[trial.best_epoch or trial.last_epoch]
    values = {name: value for name, value in best.items() if name.startswith("val/") and not name.endswith("_best")}
    values |= {f"test/{name}": value for name, value in history.tests.get(trial.id, {}).items()}
    for when, epoch in (("first", 1), ("last", trial.last_epoch)):
        values |= {f"{when}/{name}": value for name, value in trial.epochs[epoch].items() if _tells_of_gradients(name)}
    return values


def _tells_of_gradients(name: str) -> bool:
    return name == "train/loss" or (name.startswith("cocos/") and not name.endswith("_std"))


def _conditions(suite: Suite, title: str, history: History) -> Conditions:
    cell = next(cell for cell in suite.cells if cell.title == title)
    trial = suite.config(cell, 1)
    config = trial.to_dict()
    del config["seed"]
    environment = history.environment
    return Conditions(
        config=config,
        data_digest=history.data[data_key(trial)],
        git_revision=environment["git_revision"],
        versions=environment["versions"],
        machine=environment["machine"],
    )


def _fate(trial: Trial) -> str:
    return str(trial.state) if trial.error is None else f"{trial.state}: {trial.error}"


def accept(
    suite: Suite, output: Path, reference: Path, *, why: str, who: str | None = None, restart_drift: bool = False
) -> Accepted:
    """Write the numbers of a suite's newest finished rerun as the suite's reference.

    Args:
        suite: The suite; its cells must be the cells of the rerun.
        output: Folder under which reruns write.
        reference: File to write.
        why: The person's reason in a sentence, which the file keeps.
        who: Name of the person who accepts; by default the user of this process.
        restart_drift: Whether drift is measured from this rerun on, instead of from the first accepted runs.

    Raises:
        AcceptedError: If no rerun finished, a seed failed, the rerun's cells are not the suite's cells, or the file
            that would be replaced is damaged.
    """
    require("report", "`orchestrator regress accept`")
    before = read_accepted(reference, suite.name)
    home = output / suite.name
    finished = past_reruns(home).finished
    if not finished:
        raise AcceptedError(f"{home}: no finished rerun to accept; run `orchestrator regress {suite.name}` first")
    directory = finished[-1]
    records = read_journal(directory / JOURNAL_FILE)
    started = next(record for record in reversed(records) if isinstance(record, SuiteStarted))
    ran = validate(Suite, started.suite, JOURNAL_FILE)
    if ran.cells != suite.cells or ran.training != suite.training:
        raise AcceptedError(f"{directory}: ran other cells, or otherwise, than {suite.name} has now; rerun it first")
    history = History.of(records)
    studies = {f"{cell.title}-{directory.name}": cell.title for cell in suite.cells}
    runs = cell_runs(ran, history, studies)
    for name, one in runs.items():
        if one.missing or len(one.values) < 2:
            raise AcceptedError(
                f"{directory}: {name} has {len(one.values)} finished seeds and {len(one.missing)} that failed; "
                f"a reference needs two and none that failed"
            )
    when = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    first = {} if before is None or restart_drift else first_references(before, runs)
    accepted = Accepted(suite.name, who or getpass.getuser(), when, why, runs, first)
    write_accepted(reference, accepted)
    return accepted


def first_references(before: Accepted, runs: Mapping[str, CellRuns]) -> dict[str, FirstRuns]:
    """Return the first accepted runs of each cell whose config and data have not changed since then.

    Args:
        before: The reference that is replaced.
        runs: Name of a cell -> its runs that are accepted now.
    """
    found: dict[str, FirstRuns] = {}
    for name in sorted(set(before.cells) & set(runs)):
        first = before.first.get(name) or FirstRuns(before.when, _scores(before.cells[name]))
        if asks_the_same(first.runs.conditions, runs[name].conditions):
            found[name] = first
    return found


def _scores(runs: CellRuns) -> CellRuns:
    values = {
        seed: {name: value for name, value in run.items() if name.startswith(("val/", "test/"))}
        for seed, run in runs.values.items()
    }
    return CellRuns(runs.conditions, values, {})
