"""A suite's result in a terminal."""

from orchestrator.regression.changes import POWER, Change, Finding
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.regression.words import causes_in_words, conclusion, decisive, describe, headline, own_causes
from orchestrator.text.terminal import make_console

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
