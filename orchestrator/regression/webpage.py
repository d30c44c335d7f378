"""A suite's result as one HTML page that needs nothing else: what slipped first, then every number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.regression.accepted import Accepted, CellRuns
from orchestrator.regression.comparison import Change, Finding
from orchestrator.regression.junit import decisive, describe
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.report.render import stylesheet, templates

HEADLINES = {
    Finding.OK: "No baseline slipped",
    Finding.IMPROVEMENT: "A baseline got better",
    Finding.REGRESSION: "A baseline slipped",
    Finding.INCONCLUSIVE: "The seeds do not tell",
    Finding.FAILED: "A training failed",
    Finding.UNKNOWN: "Nothing to compare with",
}

WIDTH = 320
"""Of the strip of dots, in its own units."""


@dataclass(frozen=True)
class Strip:
    """The seeds of a cell on one scale.

    Attributes:
        low: Value at the left end.
        high: Value at the right end.
        accepted: Positions of the accepted seeds, in [0, WIDTH].
        new: Positions of the new ones.
    """

    low: float
    high: float
    accepted: tuple[float, ...]
    new: tuple[float, ...]


@dataclass(frozen=True)
class Section:
    """What the page shows of a cell: ``because`` says why it was found what it was, a line each."""

    cell: CellResult
    strip: Strip | None
    because: tuple[str, ...]


def render_page(
    result: SuiteResult,
    runs: Mapping[str, CellRuns],
    accepted: Accepted | None,
    score: str,
    facts: Sequence[tuple[str, str]],
) -> str:
    """Return the page.

    Args:
        result: Of the suite.
        runs: The new runs by cell.
        accepted: What they were compared with.
        score: The suite's metric.
        facts: Names and values that tell when and where it ran, and how to run it again.
    """
    known = {} if accepted is None else accepted.cells
    sections = [
        Section(
            cell=cell,
            strip=_strip(known.get(cell.name), runs.get(cell.name), score),
            because=tuple(describe(change) for change in decisive(cell)),
        )
        for cell in result.cells
    ]
    page = templates("regression").get_template("page.html.j2")
    return page.render(
        result=result,
        headline=HEADLINES[result.finding],
        sections=sections,
        score=score,
        accepted=accepted,
        facts=facts,
        width=WIDTH,
        style=stylesheet(),
        tones=TONES,
        moved=_moved,
    )


TONES = {
    Finding.OK: "better",
    Finding.IMPROVEMENT: "better",
    Finding.REGRESSION: "worse",
    Finding.FAILED: "worse",
    Finding.INCONCLUSIVE: "tie",
    Finding.UNKNOWN: "tie",
}
"""The colour of each finding, as the style sheet calls it."""


def _moved(change: Change) -> str:
    """Return by how much a number moved as a share of what it was."""
    return "–" if change.accepted == 0 else f"{change.difference / abs(change.accepted):+.1%}"


def _strip(old: CellRuns | None, new: CellRuns | None, metric: str) -> Strip | None:
    before = [] if old is None else [run[metric] for run in old.values.values() if metric in run]
    after = [] if new is None else [run[metric] for run in new.values.values() if metric in run]
    if not after:
        return None
    low, high = min(before + after), max(before + after)
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return round(8 + (WIDTH - 16) * (value - low) / span, 1)

    return Strip(low, high, tuple(map(place, before)), tuple(map(place, after)))
