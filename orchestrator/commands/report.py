"""``orchestrator report``: experiments as HTML files."""

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Device, ExperimentNames, Json, Output
from orchestrator.journal.directory import find_directory
from orchestrator.report.experiment_report import report_experiment, report_experiments
from orchestrator.text.terminal import say
from trainables.extras import require


def report(
    experiments: ExperimentNames,
    output: Output = Path("runs"),
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    queries: Annotated[bool, typer.Option(help="Query the winners, which needs their checkpoints and data.")] = True,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write each experiment as one HTML file that needs no network; of several, also an overview."""
    require("report", "`orchestrator report`")

    directories = [find_directory(name, output) for name in dict.fromkeys(experiments)]
    asked = data_root if queries else None
    if len(directories) == 1:
        paths = [report_experiment(directories[0], data_root=asked, device=device)]
    else:
        paths = report_experiments(directories, output, data_root=asked, device=device)
    path = paths[-1]
    if as_json:
        print(json.dumps({"report": str(path), "bytes": path.stat().st_size, "reports": [str(each) for each in paths]}))
    else:
        say(*(f"report: {each}" for each in paths[:-1]))
        say(f"report: {path}" if len(paths) == 1 else f"all of them: {path}")
    if open_page:
        webbrowser.open(path.resolve().as_uri())
