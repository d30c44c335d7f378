"""A suite's result as JUnit XML, which every CI system shows: a test case a cell."""

from xml.etree import ElementTree

from orchestrator.regression.comparison import Change, Finding
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.report.text import visible

BAD = {Finding.REGRESSION: "failure", Finding.FAILED: "error", Finding.UNKNOWN: "skipped"}
"""The element that a finding is told by; the others pass."""


def to_junit(result: SuiteResult, seconds: float) -> str:
    """Return the XML of a result.

    Args:
        result: Of the suite.
        seconds: That it took.
    """
    outcomes = [BAD.get(cell.finding) for cell in result.cells]
    suite = ElementTree.Element("testsuite", name=result.suite, tests=str(len(result.cells)), time=f"{seconds:.1f}")
    for name, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(outcomes.count(outcome)))
    for cell in result.cells:
        _add_case(suite, result.suite, cell)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _add_case(suite: ElementTree.Element, name: str, cell: CellResult) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=visible(name), name=visible(cell.name))
    lines = [describe(change) for change in decisive(cell)] + [*cell.causes, *cell.notes]
    text = visible("\n".join(lines))
    outcome = BAD.get(cell.finding)
    if outcome is None:
        ElementTree.SubElement(case, "system-out").text = f"{cell.finding}\n{text}"
    else:
        ElementTree.SubElement(case, outcome, message=visible(lines[0] if lines else str(cell.finding))).text = text


def decisive(cell: CellResult) -> list[Change]:
    """Return the numbers of a cell that tell why it is found what it is: what slipped, or else its score."""
    every = [one for one in (cell.score, *cell.gradients, cell.published) if one is not None]
    slipped = [one for one in every if one.finding in (Finding.REGRESSION, Finding.INCONCLUSIVE)]
    return slipped or [one for one in (cell.score, cell.published) if one is not None]


def describe(change: Change) -> str:
    """Return a comparison in one line."""
    line = (
        f"{change.metric}: {change.accepted:.4g} -> {change.new:.4g} ({change.difference:+.3g}, p = {change.p:.2g}, "
        f"{change.seeds[0]} and {change.seeds[1]} seeds, power {change.power:.0%}): {change.finding}"
    )
    return line if change.needed is None else f"{line}, rerun with {change.needed} seeds"
