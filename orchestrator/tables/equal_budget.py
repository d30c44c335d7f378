"""The expected best value of each loss at equal numbers of trials, as a table."""

from orchestrator.results.equal_budget import Json
from orchestrator.results.statistics import Measure
from orchestrator.results.summary import Summary
from orchestrator.tables.layouts import Column, Layout
from orchestrator.tables.rows import Row
from orchestrator.tables.table import Table

BUDGETS = 4
"""Most numbers of trials that are shown, each twice the number before."""

NOTE = (
    "Expected best of so many trials drawn from those of the search without replacement, and the band that holds 8 of "
    "10 draws; with all trials there is one draw."
)


def equal_budget_tables(summary: Summary, experiment: str = "") -> list[Table]:
    """Return the table of the losses at equal numbers of trials; none if no loss has enough trials.

    Args:
        summary: Summary of the experiment.
        experiment: Name of the experiment, if tables of several experiments stand together.
    """
    found = summary.analyses.equal_budget
    most = max((loss["candidates"] for each in found.values() for loss in each["losses"]), default=0)
    if not most:
        return []
    budgets = [2**power for power in range(most.bit_length())][-BUDGETS:]
    layout = Layout(
        name=f"equal_budget_{experiment}" if experiment else "equal_budget",
        published=None,
        title=f"Equal budget of {experiment}" if experiment else "Equal budget",
        spread="",
        columns=tuple(column for trials in budgets for column in _columns(trials)),
    )
    rows = [
        _row(dataset, loss, number, budgets)
        for dataset, each in found.items()
        for number, loss in enumerate(each["losses"], start=1)
    ]
    metrics = ", ".join(dict.fromkeys(each["metric"] for each in found.values()))
    return [Table(layout, tuple(rows), (f"{NOTE} Of {metrics}.",))]


def _columns(trials: int) -> tuple[Column, ...]:
    return (
        Column(f"best_of_{trials}", f"best of {trials}", f"best of {trials}", 1),
        Column(f"best_of_{trials}_low", "10 %", r"10\,\%", 1),
        Column(f"best_of_{trials}_high", "90 %", r"90\,\%", 1),
    )


def _row(dataset: str, loss: Json, number: int, budgets: list[int]) -> Row:
    places = {int(trials): place for place, trials in enumerate(loss["trials"])}
    measures = {
        f"best_of_{trials}{ending}": Measure(values[places[trials]], None, 1)
        for trials in budgets
        if trials in places
        for ending, values in (("", loss["expected"]), ("_low", loss["low"]), ("_high", loss["high"]))
    }
    return Row(dataset, loss["model"], loss["loss"], {}, measures, number=str(number))
