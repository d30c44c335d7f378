"""``orchestrator summarise``, ``report`` and ``compare``: the answers of experiments for people and programs."""

import json
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.options import DataRoot, Device, ExperimentNames, Form, Json, Output, TrackingUri
from orchestrator.journal.directory import find_directories, read_history
from orchestrator.report.experiment_report import report_experiments
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, measure_of
from orchestrator.results.tables import tables_of
from orchestrator.results.trial_comparison import compare_trials, find_side
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import say
from orchestrator.tracking.address import HOST, PORT, choose_uri, is_server, store_command
from orchestrator.tracking.view import comparison_page
from orchestrator.views.forms import print_answers
from orchestrator.views.terminal import show
from trainables.extras import require


def summarise(
    experiments: ExperimentNames,
    form: Form = "table",
    with_published: Annotated[
        bool, typer.Option(help="Add published rows of the same models, with their sources.")
    ] = False,
    cocos: Annotated[bool, typer.Option(help="Add the COCOS tables.")] = False,
    output: Output = Path("runs"),
    as_json: Json = False,
) -> None:
    """Print all answers and the result tables as text, JSON, CSV, Markdown, LaTeX or HTML."""
    require("report", "`orchestrator summarise`")

    results = [Summary(read_history(directory)) for directory in find_directories(experiments, output)]
    tables = tables_of(results, with_published=with_published, cocos=cocos)
    if as_json or form == "json":
        print(json.dumps(to_dict(results, tables), indent=2, allow_nan=False))
        return
    answers: list[Answer] = []
    for result in results:
        # Where there are several experiments, the titles of answers name theirs.
        experiment = f"{result.history.name} · " if len(results) > 1 else ""
        answers += [replace(answer, question=f"{experiment}{answer.question}") for answer in result.answers]
    answers += tables
    # All tables have the column rsum.
    meaning = f"{measure_of('rsum', results)}."
    answers[:1] = [replace(answer, notes=(*answer.notes, meaning)) for answer in answers[:1]]
    print_answers(answers, form)


def to_dict(results: Sequence[Summary], tables: Sequence[Answer]) -> dict[str, Any]:
    """Return experiments with their numbers, and all answers, as plain values for JSON."""
    answers = [
        {"experiment": result.history.name, **answer.to_dict()} for result in results for answer in result.answers
    ]
    answers += [{"experiment": None, **table.to_dict()} for table in tables]
    return {"experiments": [result.to_dict() for result in results], "answers": answers}


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

    directories = find_directories(experiments, output)
    asked = data_root if queries else None
    paths = report_experiments(directories, output, data_root=asked, device=device)
    path = paths[-1]
    if as_json:
        print(json.dumps({"report": str(path), "bytes": path.stat().st_size, "reports": [str(page) for page in paths]}))
    else:
        say(*(f"report: {page}" for page in paths[:-1]))
        say(f"report: {path}" if len(paths) == 1 else f"all of them: {path}")
    if open_page:
        webbrowser.open(path.resolve().as_uri())


TRIAL = "A trial's id or the end of it, experiment/trial, or an experiment: its winner."


def compare(
    first: Annotated[str, typer.Argument(help=TRIAL)],
    second: Annotated[str, typer.Argument(help=TRIAL)],
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Compare two trials: which is better, in what they differ, and MLflow's page of both."""
    require("report", "`orchestrator compare`")

    both = find_side(first, output), find_side(second, output)
    answers = compare_trials(*both)
    uri = choose_uri(tracking_uri, output)
    sides = [(side.experiment, side.trial.id) for side in both]
    page = comparison_page(uri, sides)
    if as_json:
        written = {"answers": [answer.to_dict() for answer in answers], "page": page}
        print(json.dumps({"trials": [side.to_dict() for side in both], **written}, indent=2))
        return
    show(answers)
    if page is None:
        names = dict.fromkeys(experiment for experiment, _ in sides)
        command = store_command("sync", uri, output, *names)
        say(f"{without_password(uri)}: does not hold both trials; `{command}` delivers them")
    elif is_server(uri):
        say("in the browser:", f"{without_password(uri).rstrip('/')}{page}")
    else:
        say(f"in the browser, with `{store_command('ui', uri, output)}` running:", f"http://{HOST}:{PORT}{page}")
