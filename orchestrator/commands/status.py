"""``orchestrator status``: how an experiment stands, from another terminal or after its end."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.options import Json, Output

if TYPE_CHECKING:
    from orchestrator.history import History


def status(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    output: Output = Path("runs"),
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show the trials of an experiment that runs or has ended."""
    from rich.console import Console

    from orchestrator.display import trials_table
    from orchestrator.history import History
    from orchestrator.journal import find_directory, read_journal
    from orchestrator.lock import find_holder
    from orchestrator.summary import summarise

    directory = find_directory(experiment, output)
    while True:
        history = History.of(read_journal(directory / "journal.jsonl"))
        holder = find_holder(directory)
        if as_json:
            print(json.dumps({"running": holder is not None, "outcome": history.outcome, **summarise(history)}))
        else:
            state = f"running as process {holder['pid']} on {holder['host']}" if holder else words(history)
            Console().print(trials_table(history, f"{directory.name}: {state}", rows=1000))
        if not watch or holder is None:
            return
        time.sleep(2)


def words(history: "History") -> str:
    """Return how the newest start ended."""
    if history.outcome is None:
        return "killed"
    by = history.ended_by
    return history.outcome.replace("_", " ") + ("" if by in (None, "trials", "signal") else f" (budget.{by})")
