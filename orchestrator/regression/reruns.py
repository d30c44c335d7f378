"""Reruns of suites and of claims: request, folders, outcome, and the files that are written and read again.

A rerun has a folder in the output folder of its suite, named by its start. It is finished, unfinished (and resumed) or
dated in the future. A folder with a summary is a rerun that has ended.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.machines.cluster import StartOptions
from orchestrator.regression.accepted import CellRecord
from orchestrator.regression.comparison import ALARMS
from orchestrator.regression.notices import to_junit
from orchestrator.regression.verdict import SuiteResult
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, measure_of
from orchestrator.views.html import sections_page
from trainables.errors import UserError
from trainables.files import read_state, write_whole

SUMMARY = "summary.json"
"""File of a rerun that has ended; a rerun without this file is resumed."""

STAMP = "%Y%m%dT%H%M%SZ"
"""Format of the name of a rerun's folder: the time at which the rerun started, in UTC, so that names sort by time."""

SKEW = 300.0
"""Seconds by which the clocks of two machines that share an output folder may differ."""

SHOWN = 30
"""Number of the newest reruns that a trend shows."""


@dataclass(frozen=True, kw_only=True)
class Request(StartOptions):
    """How a suite or claims are rerun, and where.

    Attributes:
        reference: File of the accepted result, which may not exist yet.
        if_due: Seconds for which a result counts as fresh: nothing is rerun while the newest result is fresh. ``None``
            reruns in any case.
        command: The user's command, which the page shows.
    """

    reference: Path
    if_due: float | None = None
    command: str = ""


@dataclass(frozen=True)
class Rerun:
    """The outcome of a rerun.

    Attributes:
        directory: Folder of the rerun's journal, page, JUnit file and summary.
        is_alarm: Whether something regressed or failed, in this rerun or in a fresh rerun that nobody has accepted.
        was_due: Whether anything was trained; otherwise this is the fresh rerun.
        answers: The findings as answers, the suite's first; empty where no rerun of a suite was due.
        warnings: Sentences about records that MLflow lacks, and about reruns that were ignored.
        result: The findings about a suite that was rerun.
    """

    directory: Path
    summary: Mapping[str, Any]
    is_alarm: bool
    was_due: bool
    answers: Sequence[Answer] = ()
    warnings: tuple[str, ...] = ()
    result: SuiteResult | None = None


def write_outcome(
    directory: Path,
    eyebrow: str,
    answers: Sequence[Answer],
    summary: Mapping[str, Any],
    facts: Mapping[str, str],
    history: History,
    metric: str,
) -> dict[str, Any]:
    """Write page and JUnit file of a rerun, then its summary, and return the summary's content.

    ``eyebrow`` stands above the title of the page, which says what ``metric`` measures.
    """
    title: str = summary["suite"]
    content = {**summary, "ended": time.time(), "seconds": history.spending.seconds}
    sections = [("", "", measure_of(metric, [Summary(history)]), answers)]
    shown = [(name, value, "") for name, value in facts.items()]
    write_whole(directory / "report.html", sections_page(title, eyebrow, sections, facts=shown))
    write_whole(directory / "junit.xml", to_junit(title, answers, history.spending.seconds))
    write_whole(directory / SUMMARY, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return content


def read_summary(directory: Path) -> dict[str, Any]:
    """Return the summary of a finished rerun, with the runs of its cells: none, where claims were trained again.

    Raises:
        UserError: If the file is damaged.
    """
    try:
        content = dict(read_state(directory / SUMMARY))
        runs = content.get("runs", {})
        msgspec.convert(runs, dict[str, CellRecord], str_keys=True)
        return {**content, "finding": str(content["finding"]), "ended": float(content["ended"]), "runs": runs}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{directory / SUMMARY}: damaged; remove {directory} to rerun the suite") from None


def read_nights(finished: Sequence[Path]) -> dict[str, dict[str, CellRecord]]:
    """Return name of a finished rerun -> cell -> its runs, for the newest; without cells of which a seed failed.

    Raises:
        UserError: If a summary is damaged.
    """
    nights = {}
    for path in finished[-(SHOWN - 1) :]:
        runs = msgspec.convert(read_summary(path)["runs"], dict[str, CellRecord], str_keys=True)
        nights[path.name] = {name: cell for name, cell in runs.items() if not cell.missing}
    return nights


def still_alarms(summary: Mapping[str, Any], accepted: str | None) -> bool:
    """Say whether a finished rerun found a regression or a failure, and no reference has been accepted since then.

    A schedule that runs the command every hour must fail until the regression is fixed or accepted, even if no rerun is
    due. ``accepted`` is the time of the acceptance, ISO 8601; ``None`` without a reference.
    """
    since = accepted is not None and datetime.fromisoformat(accepted).timestamp() > summary["ended"]
    return summary["finding"] in ALARMS and not since


class Past(NamedTuple):
    """The reruns of a suite: those with a summary, oldest first; the newest, if it has not ended; and warnings."""

    finished: tuple[Path, ...]
    unfinished: Path | None
    warnings: tuple[str, ...]


def past_reruns(home: Path) -> Past:
    """Return the reruns in a suite's folder, without reruns that are dated in the future, which a warning names."""
    latest = time.time() + SKEW
    # A folder whose name is no date is a copy that a person made, not a rerun.
    dates = {path: _started(path) for path in sorted(home.glob("*/"))}
    begun = {path: date for path, date in dates.items() if date is not None}
    future = {path for path, date in begun.items() if date > latest}
    finished = [path for path in begun if path not in future and (path / SUMMARY).exists()]
    # The clock may have been set forward while a rerun ran. Only the newest rerun's end is used (`find_fresh`), so only
    # the newest reruns are checked.
    while finished and read_summary(finished[-1])["ended"] > latest:
        future.add(finished.pop())
    newest = [path for path in begun if path not in future and find_journal(path)][-1:]
    names = ", ".join(path.name for path in sorted(future))
    warning = (
        f"{home}: ignored reruns that are dated in the future: {names}; this machine's clock is wrong, or was wrong "
        f"when they ran: set the clock, or remove them"
    )
    unfinished = next((path for path in newest if path not in finished), None)
    return Past(tuple(finished), unfinished, (warning,) if future else ())


def find_journal(rerun: Path) -> Path | None:
    """Return the journal of a rerun, which of claims lies in the folder of their experiment; ``None`` without one."""
    return next((path for name in ("", "*/") for path in rerun.glob(f"{name}{JOURNAL_FILE}")), None)


def name_rerun(home: Path) -> Path:
    """Return the folder of a rerun that starts now, in the suite's folder of the output folder.

    A rerun that starts in the same second as another rerun gets the next free second. Each rerun needs its own folder,
    and the names of the folders must sort by the order of the starts.
    """
    start = datetime.fromtimestamp(time.time(), UTC)
    while (directory := home / f"{start:{STAMP}}").exists():
        start += timedelta(seconds=1)
    return directory


def find_fresh(finished: Sequence[Path], if_due: float | None) -> Path | None:
    """Return the newest finished rerun if that rerun ended less than ``if_due`` seconds ago."""
    if if_due is None or not finished:
        return None
    age = time.time() - read_summary(finished[-1])["ended"]
    return finished[-1] if age < if_due else None


def _started(directory: Path) -> float | None:
    """Return the date in the name of a rerun's folder; ``None`` where the name is no date."""
    try:
        return datetime.strptime(directory.name, STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
