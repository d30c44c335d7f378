"""A suite's result in words: the causes that all cells share are named first and once, then the cells that slipped."""

from orchestrator.regression.changes import POWER, Change, Finding
from orchestrator.regression.verdict import TOGETHER, CellResult, SuiteResult

CHANGED = "Changed since the cells that slipped were accepted"


def causes_in_words(result: SuiteResult) -> tuple[str, ...]:
    """Return a heading and the causes that all slipped cells share; empty where no cell slipped.

    A cell counts as slipped where it is a regression, failed, or inconclusive, and something was accepted for it.
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
    slipped = [one for one in every if one.finding in (Finding.REGRESSION, Finding.INCONCLUSIVE)]
    return slipped or [one for one in (cell.score, cell.published) if one is not None]


def describe(change: Change) -> str:
    """Return a comparison in words, with the difference that its seeds can detect."""
    moved = "fell" if change.difference < 0 else "rose" if change.difference > 0 else "stayed"
    line = (
        f"{change.metric} {moved} from {change.accepted:.4g} to {change.new:.4g} ({change.difference:+.3g}, "
        f"p = {change.p:.2g}, {change.seeds[0]} and {change.seeds[1]} seeds): {change.finding}"
    )
    if change.finding is not Finding.REGRESSION:
        line += f"; with these seeds, a true change of {change.detectable:.3g} is found in {POWER:.0%} of reruns"
    return line if change.needed is None else f"{line}; rerun with {change.needed} seeds"
