"""``orchestrator report``: an experiment as one HTML file."""

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Device, Json, Output
from orchestrator.text.terminal import say
from trainables.extras import require


def report(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    output: Output = Path("runs"),
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    queries: Annotated[bool, typer.Option(help="Ask the winners, which takes their checkpoints and data.")] = True,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write an experiment's report, finished or not: one HTML file that needs no network."""
    require("report", "`orchestrator report`")
    from orchestrator.journal.directory import find_directory
    from orchestrator.report.experiment_report import report_experiment

    directory = find_directory(experiment, output)
    path = report_experiment(directory, data_root=data_root if queries else None, device=device)
    if as_json:
        print(json.dumps({"report": str(path), "bytes": path.stat().st_size}))
    else:
        say(f"report: {path}")
    if open_page:
        webbrowser.open(path.resolve().as_uri())
