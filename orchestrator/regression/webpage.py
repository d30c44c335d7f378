"""A suite's result as one HTML page that loads no other file: first what changed, then every number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.regression.accepted import Accepted, CellRuns
from orchestrator.regression.changes import POWER, Change, Finding
from orchestrator.regression.drift import WINDOW
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.regression.words import causes_in_words, conclusion, decisive, describe, headline, own_causes
from orchestrator.report.render import stylesheet, templates

WIDTH = 320
"""Width of the strip of dots and of the trend, in units of the SVG drawing."""

HEIGHT = 60
"""Height of the trend, in units of the SVG drawing."""


@dataclass(frozen=True)
class Strip:
    """The seeds of a cell on one scale.

    Attributes:
        low: Value at the left end.
        high: Value at the right end.
        accepted: Positions of the accepted seeds, in [0, WIDTH].
        new: Positions of the new seeds, in [0, WIDTH].
    """

    low: float
    high: float
    accepted: tuple[float, ...]
    new: tuple[float, ...]


@dataclass(frozen=True)
class Trend:
    """The mean scores of the reruns of a cell, the newest last.

    Attributes:
        low: Value at the lower edge.
        high: Value at the upper edge.
        oldest: Name of the first rerun.
        points: Position of each rerun, in [0, WIDTH] from the left and [0, HEIGHT] from above.
        accepted: Position of the accepted mean from above, in [0, HEIGHT]; ``None`` where nothing was accepted.
        first: Position of the first accepted mean from above, in [0, HEIGHT]; ``None`` where ``accepted`` is that mean.
    """

    low: float
    high: float
    oldest: str
    points: tuple[tuple[float, float], ...]
    accepted: float | None
    first: float | None


@dataclass(frozen=True)
class Section:
    """The part of the page about one cell.

    Attributes:
        cell: The findings about the cell.
        strip: The cell's seeds; ``None`` where the cell has no score.
        trend: The cell's reruns; ``None`` where this rerun is the first.
        because: A line for each comparison that decided the finding.
        causes: A line for each condition that changed for this cell alone.
        conclusion: The sentence about the cell as a whole; ``None`` where the numbers say it all.
    """

    cell: CellResult
    strip: Strip | None
    trend: Trend | None
    because: tuple[str, ...]
    causes: tuple[str, ...]
    conclusion: str | None


def render_page(
    result: SuiteResult,
    runs: Mapping[str, CellRuns],
    accepted: Accepted | None,
    score: str,
    facts: Sequence[tuple[str, str]],
) -> str:
    """Return the page.

    Args:
        result: The result of the suite.
        runs: Name of a cell -> its new runs.
        accepted: The reference with which the new runs were compared.
        score: Name of the suite's score.
        facts: Names and values that say when and where the suite ran, and which command runs the suite again.
    """
    known = {} if accepted is None else accepted.cells
    sections = [
        Section(
            cell=cell,
            strip=_strip(known.get(cell.name), runs.get(cell.name), score),
            trend=_trend(cell),
            because=tuple(describe(change) for change in decisive(cell)),
            causes=own_causes(result, cell),
            conclusion=conclusion(cell),
        )
        for cell in result.cells
    ]
    page = templates("regression").get_template("page.html.j2")
    return page.render(
        result=result,
        headline=headline(result),
        sections=sections,
        causes=causes_in_words(result),
        score=score,
        accepted=accepted,
        facts=facts,
        width=WIDTH,
        height=HEIGHT,
        power=POWER,
        window=WINDOW,
        style=stylesheet(),
        tones=TONES,
        moved=_moved,
    )


TONES = {
    Finding.OK: "better",
    Finding.IDENTICAL: "better",
    Finding.IMPROVEMENT: "better",
    Finding.REGRESSION: "worse",
    Finding.CHANGED: "tie",
    Finding.FAILED: "worse",
    Finding.INCONCLUSIVE: "tie",
    Finding.UNKNOWN: "tie",
}
"""The colour of each finding, by its name in the style sheet."""


def _moved(change: Change) -> str:
    """Return the difference of a number as a share of the accepted number."""
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


def _trend(cell: CellResult) -> Trend | None:
    if not cell.trend or cell.mean is None:
        return None
    means = [*(mean for _, mean in cell.trend), cell.mean]
    accepted = None if cell.score is None else cell.score.accepted
    first = None if cell.drift is None else cell.drift.accepted
    every = [*means, *(value for value in (accepted, first) if value is not None)]
    low, high = min(every), max(every)
    span = (high - low) or 1.0

    def height(value: float) -> float:
        return round(6 + (HEIGHT - 12) * (high - value) / span, 1)

    step = (WIDTH - 16) / (len(means) - 1)
    return Trend(
        low=low,
        high=high,
        oldest=cell.trend[0][0],
        points=tuple((round(8 + step * index, 1), height(mean)) for index, mean in enumerate(means)),
        accepted=None if accepted is None else height(accepted),
        first=None if first is None else height(first),
    )
