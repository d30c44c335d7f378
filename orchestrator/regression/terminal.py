"""A suite's result in a terminal."""

from orchestrator.regression.comparison import Change, Finding
from orchestrator.regression.junit import decisive, describe
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.terminal import make_console

STYLES = {
    Finding.OK: "green",
    Finding.IMPROVEMENT: "green",
    Finding.REGRESSION: "red",
    Finding.FAILED: "red",
    Finding.INCONCLUSIVE: "yellow",
    Finding.UNKNOWN: "yellow",
}


def print_result(result: SuiteResult) -> None:
    """Print a line a cell, then why what slipped is thought to have slipped."""
    from rich.table import Table
    from rich.text import Text

    console = make_console(plain_width=160)
    table = Table(title=Text(f"{result.suite}: {result.finding}", style=STYLES[result.finding]))
    for heading in ("cell", "finding"):
        table.add_column(heading)
    for heading in ("accepted", "new", "difference", "p (lower)", "power", "seeds", "identical"):
        table.add_column(heading, justify="right")
    for cell in result.cells:
        head = (Text(cell.name), Text(cell.finding, style=STYLES[cell.finding]))
        table.add_row(*head, *_numbers(cell.score or cell.published, cell.mean), str(cell.seeds), str(cell.identical))
    console.print(table)
    for cell in result.cells:
        if cell.finding not in (Finding.OK, Finding.IMPROVEMENT):
            console.print(Text(f"{cell.name}: {cell.finding}", style=STYLES[cell.finding]))
            for line in explain(cell):
                console.print(Text(f"  {line}"), soft_wrap=True)
    console.print(
        Text(f"A suite without any change is called a regression at most {result.false_alarms:.0%} of the time."),
        soft_wrap=True,
    )


def explain(cell: CellResult) -> list[str]:
    """Return the numbers that slipped, what changed since they were accepted, and what else is to be known."""
    return [*map(describe, decisive(cell)), *cell.causes, *cell.notes]


def _numbers(change: Change | None, mean: float | None) -> tuple[str, ...]:
    if change is None:
        return ("–", "–" if mean is None else f"{mean:.1f}", *("–",) * 3)
    shown = (f"{change.accepted:.1f}", f"{change.new:.1f}", f"{change.difference:+.1f}")
    return (*shown, f"{change.p:.2g}", f"{change.power:.0%}")
