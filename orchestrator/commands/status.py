"""``orchestrator status``: how an experiment stands, from another terminal or after its end."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.options import Json, Output
from orchestrator.text.terminal import make_console

if TYPE_CHECKING:
    from rich.console import Group

    from orchestrator.search.status import Status

SECONDS = 2.0
"""Between two looks."""


def status(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    output: Output = Path("runs"),
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show how an experiment stands that runs or has ended: stages, trials, budget, winners."""
    from rich.live import Live

    from orchestrator.journal.directory import find_directory
    from orchestrator.search.status import read_status

    directory = find_directory(experiment, output)
    now = read_status(directory)
    if watch and not as_json and sys.stdout.isatty():
        with Live(console=make_console(), auto_refresh=False) as live:
            while now.holder is not None:
                live.update(_drawn(now, whole=False), refresh=True)
                time.sleep(SECONDS)
                now = read_status(directory)
            live.update(_drawn(now, whole=False), refresh=True)
        return
    _show(now, as_json)
    while watch and now.holder is not None:
        time.sleep(SECONDS)
        now = read_status(directory)
        _show(now, as_json)


def _show(now: "Status", as_json: bool) -> None:
    from orchestrator.results.summary import summarise

    if as_json:
        print(json.dumps({**now.to_dict(), **(summarise(now.history) if now.history.experiment else {})}), flush=True)
    else:
        make_console().print(_drawn(now, whole=True))


def _drawn(now: "Status", *, whole: bool) -> "Group":
    """Return the table of the trials, of all or of the newest, and a line for each thing that is to be known."""
    from rich.console import Group
    from rich.text import Text

    from orchestrator.results.sentences import statements
    from orchestrator.results.summary import summarise
    from orchestrator.search.display import ROWS, count_words, race_lines, trials_table
    from orchestrator.tables.pareto import pareto_tables
    from orchestrator.tables.terminal import draw

    table = trials_table(now.history, f"{now.name}: {now.words}", rows=len(now.history.trials) if whole else ROWS)
    lines = [f"{one.stage}: {count_words(one.states)} of {one.total}" for one in now.stages]
    lines += [f"went on from an older checkpoint: {damage}" for damage in now.damage]
    lines += [f"budget.{name}: {used:.4g} of {limit:g}" for name, (used, limit) in now.budget.items()]
    lines += [f"it goes on with: {now.command}"] if now.command else []
    fronts = []
    # Of an experiment that nobody runs, the statements below tell its races as well.
    lines += race_lines(now.history) if now.holder is not None else []
    if now.holder is None and now.history.experiment:
        summary = summarise(now.history)
        fronts = [draw(front) for front in pareto_tables(summary)]
        lines += [f"{name}: {said}" for name in summary["caveats"] for said in statements(name, summary)]
    return Group(table, *fronts, *(Text(line) for line in lines))
