"""``orchestrator summarise``: the results of experiments as tables for people, papers and programs."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import ExperimentNames, Json, Output
from orchestrator.journal.directory import find_directory
from orchestrator.tables import render
from orchestrator.tables.experiments import read_result, tables_of, to_dict
from orchestrator.tables.terminal import draw
from orchestrator.text.terminal import make_console, say
from trainables.extras import require


def summarise(
    experiments: ExperimentNames,
    form: Annotated[
        str, typer.Option("--format", help="Form of the output: table, json, csv, markdown, latex or html.")
    ] = "table",
    with_published: Annotated[
        bool, typer.Option(help="Add published rows of the same models, with their sources.")
    ] = False,
    cocos: Annotated[bool, typer.Option(help="Add the COCOS tables.")] = False,
    output: Output = Path("runs"),
    as_json: Json = False,
) -> None:
    """Print winners, verdicts and statistics as a table, JSON, CSV, Markdown, LaTeX or HTML."""
    require("report", "`orchestrator summarise`")

    results = [read_result(find_directory(name, output)) for name in experiments]
    # The caption of a LaTeX table has no room for all statistics.
    tables = tables_of(results, with_published=with_published, cocos=cocos, brief=form == "latex")
    if as_json or form == "json":
        print(json.dumps(to_dict(results, tables), indent=2, allow_nan=False))
    elif form == "table" and sys.stdout.isatty():
        console = make_console()
        for table in tables:
            console.print(draw(table, console.width))
    else:
        say(render(tables, form).rstrip("\n"))
