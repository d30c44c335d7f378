"""``orchestrator compare``: two trials side by side."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.commands.options import Json, Output, TrackingUri
from orchestrator.results.trial_comparison import TrialComparison, compare_trials
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import format_parameters
from orchestrator.tracking import (
    choose_uri,
    comparison_page,
    is_server,
    pages_command,
    sync_command,
    without_password,
)
from orchestrator.tracking.address import HOST, PORT
from trainables.extras import require

NAME = "A trial's id, experiment/trial, or an experiment, which stands for the best trial of its search."


def compare(
    first: Annotated[str, typer.Argument(help=NAME)],
    second: Annotated[str, typer.Argument(help=NAME)],
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Compare two trials: which is better, in what they differ, and MLflow's page of both."""
    require("report", "`orchestrator compare`")

    found = compare_trials(first, second, output)
    uri = choose_uri(tracking_uri, output)
    sides = [(side.experiment, side.trial.id) for side in (found.first, found.second)]
    page = comparison_page(uri, sides)
    if as_json:
        print(json.dumps({**found.to_dict(), "page": page}, indent=2))
        return
    _print(found)
    if page is None:
        names = dict.fromkeys(experiment for experiment, _ in sides)
        say(f"{without_password(uri)}: does not hold both trials; `{sync_command(uri, output, *names)}` delivers them")
    elif is_server(uri):
        say("in the browser:", f"{without_password(uri).rstrip('/')}{page}")
    else:
        say(f"in the browser, with `{pages_command(uri, output)}` running:", f"http://{HOST}:{PORT}{page}")


def _print(found: "TrialComparison") -> None:
    console = make_console(plain_width=140)
    sides = (found.first, found.second)
    for letter, side in zip("AB", sides, strict=True):
        words = format_parameters(side.trial.parameters) or "defaults"
        why = f" ({side.why})" if side.why else ""
        console.print(Text(f"{letter}: {side.experiment}/{side.trial.id}{why}: {words}"))
    console.print(Text(f"{found.better}."))
    if found.settings:
        table = Table(title="settings that differ", title_justify="left")
        for heading in ("setting", "A", "B"):
            table.add_column(heading, overflow="fold")
        for name, pair in found.settings.items():
            table.add_row(Text(name), *(Text("–" if value is None else str(value)) for value in pair))
        console.print(table)
    else:
        console.print("no setting differs")
    table = Table(title="metrics at the best epochs", title_justify="left")
    for heading in ("metric", "A", "B", "B − A"):
        table.add_column(heading, overflow="fold", justify="left" if heading == "metric" else "right")
    for name, (first, second) in found.metrics.items():
        difference = "" if first is None or second is None else f"{second - first:+.4g}"
        table.add_row(Text(name), *("–" if value is None else f"{value:.5g}" for value in (first, second)), difference)
    console.print(table)
