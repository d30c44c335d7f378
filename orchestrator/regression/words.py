"""A suite's result in words: the causes that all cells share are named first and once, then the cells that slipped."""

from orchestrator.regression.changes import POWER, Change, Finding
from orchestrator.regression.verdict import TOGETHER, CellResult, SuiteResult

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
    return f"{words}: {_moved(max(scores, key=lambda score: abs(score.difference)))}"


def conclusion(cell: CellResult) -> str | None:
    """Return the sentence about an identical or a changed cell; ``None`` for others, whose numbers say it all."""
    if cell.finding is Finding.IDENTICAL:
        return f"{cell.name}: identical to the accepted runs in {cell.identical} of {cell.identical} shared seeds"
    if cell.finding is not Finding.CHANGED:
        return None
    moved = [_moved(cell.score)] if cell.score else []
    moved += [
        f"{change.metric} {change.accepted:.4g} → {change.new:.4g}"
        for change in cell.gradients
        if change.finding is Finding.CHANGED
    ]
    return f"{cell.name} changed: {'; '.join(moved)}. Accept it or find out why."


def _moved(score: Change) -> str:
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
