"""``orchestrator compare``: two trials side by side."""

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Json, Output, TrackingUri
from orchestrator.results.trial_comparison import compare_trials
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import say
from orchestrator.tracking.address import HOST, PORT, choose_uri, is_server, pages_command, sync_command
from orchestrator.tracking.view import comparison_page
from orchestrator.views.terminal import show
from trainables.extras import require

NAME = "A trial's id, experiment/trial, or an experiment: the best trial of its search."


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
    show(found.answers())
    if page is None:
        names = dict.fromkeys(experiment for experiment, _ in sides)
        say(f"{without_password(uri)}: does not hold both trials; `{sync_command(uri, output, *names)}` delivers them")
    elif is_server(uri):
        say("in the browser:", f"{without_password(uri).rstrip('/')}{page}")
    else:
        say(f"in the browser, with `{pages_command(uri, output)}` running:", f"http://{HOST}:{PORT}{page}")
