"""``orchestrator summarise``: what experiments came to, as tables for people, papers and programs."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Json, Output
from orchestrator.text.terminal import make_console, say
from trainables.extras import require


def summarise(
    experiments: Annotated[list[str], typer.Argument(help="Names of experiments under OUTPUT, or their folders.")],
    form: Annotated[str, typer.Option("--format", help="table, json, csv, markdown, latex or html.")] = "table",
    with_published: Annotated[
        bool, typer.Option(help="Put published rows of the same model beside ours, with their sources.")
    ] = False,
    cocos: Annotated[bool, typer.Option(help="The tables of COCOS as well.")] = False,
    output: Output = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show what experiments came to: winners, verdicts and statistics, as the tables of Bleeker and de Rijke (2022)."""
    require("report", "`orchestrator summarise`")
    from orchestrator.journal.directory import find_directory
    from orchestrator.tables import render
    from orchestrator.tables.experiments import read_result, tables_of, to_dict
    from orchestrator.tables.terminal import draw

    results = [read_result(find_directory(name, output)) for name in experiments]
    # A caption that holds all statistics is no caption any more.
    tables = tables_of(results, with_published=with_published, cocos=cocos, brief=form == "latex")
    if as_json or form == "json":
        print(json.dumps(to_dict(results, tables), indent=2, allow_nan=False))
    elif form == "table" and sys.stdout.isatty():
        console = make_console()
        for table in tables:
            console.print(draw(table, console.width))
    else:
        say(render(tables, form).rstrip("\n"))
