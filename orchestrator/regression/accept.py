"""Making a rerun the reference that later ones are compared with."""

import getpass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.config_files import validate
from orchestrator.history import History
from orchestrator.journal import NAME, read_journal
from orchestrator.regression.accepted import Accepted, AcceptedError, write_accepted
from orchestrator.regression.rerun import SUMMARY, list_reruns
from orchestrator.regression.runs import cell_runs
from orchestrator.regression.suite import Suite


def accept(suite: Suite, output: Path, reference: Path, *, why: str, who: str | None = None) -> Accepted:
    """Write the newest finished rerun of a suite down as its reference.

    Args:
        suite: Which; its cells must be those of the rerun.
        output: Root of everything that reruns wrote.
        reference: File to write.
        why: In a sentence; it stands in the file.
        who: By default the user of this process.

    Raises:
        AcceptedError: If no rerun finished, or one of its seeds failed, or it ran other cells than the suite has.
    """
    home = output / suite.name
    finished = list_reruns(home, SUMMARY)
    if not finished:
        raise AcceptedError(f"{home}: no finished rerun to accept; run `orchestrator regress {suite.name}` first")
    directory = finished[-1]
    records = read_journal(directory / NAME)
    ran = validate(Suite, next(one["suite"] for one in reversed(records) if one["kind"] == "suite_started"), NAME)
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
    accepted = Accepted(suite.name, who or getpass.getuser(), when, why, runs)
    write_accepted(reference, accepted)
    return accepted
