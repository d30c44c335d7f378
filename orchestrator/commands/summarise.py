"""``orchestrator summarise``: the answers of experiments for people, papers and programs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.options import ExperimentNames, Json, Output
from orchestrator.journal.directory import find_directory
from orchestrator.results.answer import Answer
from orchestrator.results.tables import Result, read_result, tables_of
from orchestrator.text.terminal import say
from orchestrator.views.records import render
from orchestrator.views.terminal import show
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
    """Print all answers and the result tables as text, JSON, CSV, Markdown, LaTeX or HTML."""
    require("report", "`orchestrator summarise`")

    results = [read_result(find_directory(name, output)) for name in experiments]
    tables = tables_of(results, with_published=with_published, cocos=cocos)
    if as_json or form == "json":
        print(json.dumps(to_dict(results, tables), indent=2, allow_nan=False))
        return
    answers = [*(answer for result in results for answer in _named(result, len(results) > 1)), *tables]
    if form == "table":
        show(answers)
    else:
        say(render(answers, form).rstrip("\n"))


def to_dict(results: Sequence[Result], tables: Sequence[Answer]) -> dict[str, Any]:
    """Return experiments with their numbers, and all answers, as plain values for JSON."""
    answers = [{"experiment": result.name, **one.to_dict()} for result in results for one in result.answers]
    answers += [{"experiment": None, **table.to_dict()} for table in tables]
    return {"experiments": [result.summary.to_dict() for result in results], "answers": answers}


def _named(result: Result, several: bool) -> list[Answer]:
    """Return the answers of an experiment, with its name in their titles where there are several experiments."""
    if not several:
        return result.answers
    return [replace(one, question=f"{result.name} · {one.question}") for one in result.answers]
