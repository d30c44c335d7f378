"""A suite's result as JUnit XML, which every CI system shows: one test case for each cell."""

from xml.etree import ElementTree

from orchestrator.regression.changes import Finding
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.regression.webpage import conclusion, decisive, describe
from orchestrator.text.values import visible

BAD = {Finding.REGRESSION: "failure", Finding.CHANGED: "failure", Finding.FAILED: "error", Finding.UNKNOWN: "skipped"}
"""Finding -> the XML element that marks a test case with this finding; test cases with other findings pass."""


def to_junit(result: SuiteResult, seconds: float) -> str:
    """Return the XML of a result.

    Args:
        result: The result of the suite.
        seconds: Duration of the rerun.
    """
    outcomes = [BAD.get(cell.finding) for cell in result.cells]
    suite = ElementTree.Element("testsuite", name=result.suite, tests=str(len(result.cells)), time=f"{seconds:.1f}")
    for name, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(outcomes.count(outcome)))
    for cell in result.cells:
        _add_case(suite, result, cell)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _add_case(suite: ElementTree.Element, result: SuiteResult, cell: CellResult) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=visible(result.suite), name=visible(cell.name))
    # CI systems show one test case at a time, so each failed case names every cause.
    sentence = [line] if (line := conclusion(cell)) else []
    lines = [*sentence, *map(describe, decisive(cell)), *cell.causes, *cell.notes]
    text = visible("\n".join(lines))
    outcome = BAD.get(cell.finding)
    if outcome is None:
        ElementTree.SubElement(case, "system-out").text = f"{cell.finding}\n{text}"
    else:
        ElementTree.SubElement(case, outcome, message=visible(lines[0] if lines else str(cell.finding))).text = text
