"""The result of a rerun for people: its words, its table on the terminal, and its page.

A suite's result in words: the causes that all cells share are named first and once, then the cells that slipped.

A suite's result in a terminal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.regression.accepted import Accepted, CellRuns
from orchestrator.regression.changes import POWER, Change, Finding
from orchestrator.regression.drift import WINDOW
from orchestrator.regression.verdict import TOGETHER, CellResult, SuiteResult
from orchestrator.report.render import stylesheet, templates
from orchestrator.text.terminal import make_console

CHANGED = "Changed since these cells were accepted"

HEADLINES = {
    Finding.OK: "no regression",
    Finding.IDENTICAL: "identical to the accepted runs",
    Finding.IMPROVEMENT: "improvement",
    Finding.REGRESSION: "regression",
    Finding.CHANGED: "changed",
    Finding.INCONCLUSIVE: "inconclusive: more seeds are needed",
    Finding.FAILED: "a training failed",
    Finding.UNKNOWN: "nothing was accepted to compare with",
}


def headline(result: SuiteResult) -> str:
    """Return a suite's result in a few words, with the score of its worst cell, such as ``changed: val/rsum +50.5``."""
    words = HEADLINES[result.finding]
    scores = [cell.score for cell in result.cells if cell.finding is result.finding and cell.score]
    if result.finding not in (Finding.IMPROVEMENT, Finding.REGRESSION, Finding.CHANGED) or not scores:
        return words
    return f"{words}: {_score_moved(max(scores, key=lambda score: abs(score.difference)))}"


def conclusion(cell: CellResult) -> str | None:
    """Return the sentence about an identical or a changed cell; ``None`` for others, whose numbers say it all."""
    if cell.finding is Finding.IDENTICAL:
        return f"{cell.name}: identical to the accepted runs in {cell.identical} of {cell.identical} shared seeds"
    if cell.finding is not Finding.CHANGED:
        return None
    moved = [_score_moved(cell.score)] if cell.score else []
    moved += [
        f"{change.metric} {change.accepted:.4g} → {change.new:.4g}"
        for change in cell.gradients
        if change.finding is Finding.CHANGED
    ]
    return f"{cell.name} changed: {'; '.join(moved)}. Accept it or find out why."


def _score_moved(score: Change) -> str:
    return f"{score.metric} {score.difference:+.1f}"


def causes_in_words(result: SuiteResult) -> tuple[str, ...]:
    """Return a heading and the causes that all slipped cells share; empty where no cell slipped.

    A cell counts as slipped where it is a regression, changed, failed, or inconclusive, and something was accepted.
    """
    slipped = [cell for cell in result.cells if cell.slipped and cell.name != TOGETHER]
    if not any(cell.score or cell.gradients for cell in slipped):
        return ()
    if result.causes:
        return (f"{CHANGED}:", *result.causes)
    if any(cell.causes for cell in slipped):
        return (f"{CHANGED}: nothing that all of them share; what changed for one cell stands beside it",)
    return (
        f"{CHANGED}: nothing that is recorded. Config, data, code, versions and hardware are what they were, so the "
        f"cause is chance, or something that is not recorded, such as a driver or the load of the machine",
    )


def own_causes(result: SuiteResult, cell: CellResult) -> tuple[str, ...]:
    """Return the causes of this cell that not all slipped cells share."""
    return tuple(line for line in cell.causes if line not in result.causes)


def decisive(cell: CellResult) -> list[Change]:
    """Return the comparisons that decided a cell's finding: the slipped comparisons, or the score if none slipped."""
    every = [one for one in (cell.score, *cell.gradients, cell.drift, cell.published) if one is not None]
    slipped = [one for one in every if one.finding in (Finding.REGRESSION, Finding.CHANGED, Finding.INCONCLUSIVE)]
    return slipped or [one for one in (cell.score, cell.published) if one is not None]


def describe(change: Change) -> str:
    """Return a comparison in words, with the difference that its seeds can detect."""
    moved = "fell" if change.difference < 0 else "rose" if change.difference > 0 else "stayed"
    line = (
        f"{change.metric} {moved} from {change.accepted:.4g} to {change.new:.4g} ({change.difference:+.3g}, "
        f"p = {change.p:.2g}, {change.seeds[0]} and {change.seeds[1]} seeds): {change.finding}"
    )
    if change.finding not in (Finding.REGRESSION, Finding.CHANGED, Finding.IDENTICAL):
        line += f"; with these seeds, a true change of {change.detectable:.3g} is found in {POWER:.0%} of reruns"
    return line if change.needed is None else f"{line}; rerun with {change.needed} seeds"


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


STYLES = {
    Finding.OK: "green",
    Finding.IDENTICAL: "green",
    Finding.IMPROVEMENT: "green",
    Finding.REGRESSION: "red",
    Finding.CHANGED: "yellow",
    Finding.FAILED: "red",
    Finding.INCONCLUSIVE: "yellow",
    Finding.UNKNOWN: "yellow",
}


def print_result(result: SuiteResult) -> None:
    """Print the causes that all slipped cells share, a row for each cell, then the numbers that slipped."""
    from rich.table import Table
    from rich.text import Text

    console = make_console(plain_width=160)
    for line in causes_in_words(result):
        console.print(Text(line), soft_wrap=True)
    table = Table(title=Text(f"{result.suite}: {headline(result)}", style=STYLES[result.finding]))
    for heading in ("cell", "finding"):
        table.add_column(heading)
    for heading in ("accepted", "new", "difference", "p (lower)", "detectable", "seeds", "identical"):
        table.add_column(heading, justify="right")
    for cell in result.cells:
        head = (Text(cell.name), Text(cell.finding, style=STYLES[cell.finding]))
        table.add_row(*head, *_numbers(cell.score or cell.published, cell.mean), str(cell.seeds), str(cell.identical))
    console.print(table)
    for cell in result.cells:
        if cell.finding not in (Finding.OK, Finding.IDENTICAL, Finding.IMPROVEMENT):
            console.print(Text(f"{cell.name}: {cell.finding}", style=STYLES[cell.finding]))
            for line in explain(result, cell):
                console.print(Text(f"  {line}"), soft_wrap=True)
    console.print(
        Text(
            f"A suite without any change is called a regression in at most {result.false_alarms:.0%} of reruns. "
            f"Detectable: the true drop that these seeds find in {POWER:.0%} of reruns."
        ),
        soft_wrap=True,
    )


def explain(result: SuiteResult, cell: CellResult) -> list[str]:
    """Return a line for each number of the cell that slipped, for each cause of this cell alone, and for each note."""
    sentence = [line] if (line := conclusion(cell)) else []
    return [*sentence, *map(describe, decisive(cell)), *own_causes(result, cell), *cell.notes]


def _numbers(change: Change | None, mean: float | None) -> tuple[str, ...]:
    if change is None:
        return ("–", "–" if mean is None else f"{mean:.1f}", *("–",) * 3)
    shown = (f"{change.accepted:.1f}", f"{change.new:.1f}", f"{change.difference:+.1f}")
    return (*shown, f"{change.p:.2g}", f"{change.detectable:.1f}")
