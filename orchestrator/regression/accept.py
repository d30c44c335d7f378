"""Accepting a rerun as the reference with which later reruns are compared."""

import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import SuiteStarted
from orchestrator.regression.accepted import (
    Accepted,
    AcceptedError,
    CellRuns,
    FirstRuns,
    asks_the_same,
    read_accepted,
    write_accepted,
)
from orchestrator.regression.past import past_reruns
from orchestrator.regression.runs import cell_runs
from orchestrator.regression.suite import Suite
from trainables.extras import require


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
