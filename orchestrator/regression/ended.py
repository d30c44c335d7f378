"""The summary file that a rerun writes at its end, for later reruns and for other programs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.regression.accepted import CellRuns, Conditions
from trainables.errors import UserError
from trainables.files import read_state

SUMMARY = "summary.json"
"""File of a rerun that has ended; a rerun without this file is resumed."""

SLIPS = ("regression", "changed", "failed")
"""Findings for which ``regress`` ends with exit code 5."""


@dataclass(frozen=True)
class EndedRerun:
    """The summary of a rerun that has ended.

    Attributes:
        ended: When the rerun ended, in seconds since the Unix epoch.
        finding: The worst finding of the rerun.
        runs: Name of a cell -> its runs; without cells whose conditions are unknown, as in files of older versions.
        content: The content of the file, for programs.
    """

    ended: float
    finding: str
    runs: Mapping[str, CellRuns]
    content: Mapping[str, Any]

    @property
    def slipped(self) -> bool:
        """Whether the rerun found a regression, other gradients, or a failure."""
        return self.finding in SLIPS

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "EndedRerun":
        """Return the summary with the content of a file.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: If the content is no summary.
        """
        cells = content.get("runs", {})
        runs = {name: _runs(cell) for name, cell in cells.items() if "conditions" in cell}
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


def written_runs(runs: CellRuns) -> dict[str, Any]:
    """Return the runs of a cell as plain values for the file."""
    return {
        "values": {str(seed): run for seed, run in runs.values.items()},
        "missing": {str(seed): fate for seed, fate in runs.missing.items()},
        "conditions": asdict(runs.conditions),
    }


def _runs(cell: Mapping[str, Any]) -> CellRuns:
    values = {int(seed): run for seed, run in cell["values"].items()}
    return CellRuns(
        Conditions(**cell["conditions"]), values, {int(seed): fate for seed, fate in cell["missing"].items()}
    )
