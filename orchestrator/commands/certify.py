"""``orchestrator certify``: which claims of a paper hold on your data."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.claims.cells import cells_experiment
from orchestrator.claims.certificate import CERTIFICATE, PAGE, Certified, certify_confirmed, certify_published
from orchestrator.claims.claims import load_claims
from orchestrator.claims.engine import Outcome
from orchestrator.claims.reruns import train_cells
from orchestrator.commands.options import ClaimsName, Models, Overrides, Seeds, split_names, with_start_options
from orchestrator.journal.directory import find_directories, read_history
from orchestrator.machines.cluster import StartOptions
from orchestrator.text.terminal import path_text, say
from orchestrator.views.terminal import show
from trainables.errors import ConfigError


@with_start_options
def certify(
    claims: ClaimsName,
    datasets: Annotated[
        str, typer.Option(help="Datasets on which the claims are asked, separated by commas; empty reruns nothing.")
    ] = "",
    models: Models = "",
    seeds: Seeds = 5,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="An experiment whose confirmation has cells at the published settings. Repeatable."
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Ask the claims of the papers' own tables, and train nothing.")
    ] = False,
    overrides: Overrides = None,
    *,
    options: StartOptions,
) -> None:
    """Run a paper's losses at its published settings, and say which of its claims hold on your data.

    The questions are fixed in a file before training. The same command resumes. Certificate and page are written.
    """
    asked, output = load_claims(claims), options.output
    if published:
        folder = output / f"published-{asked.name}"
        _print(certify_published(asked, folder), folder, as_json=options.quiet)
        return
    if not datasets and not beside:
        raise ConfigError(
            "--datasets must name a dataset, or --with an experiment; --published asks the papers' tables"
        )
    histories = [read_history(directory) for directory in find_directories(beside or [], output)]
    folder = output / f"certify-{asked.name}"
    if datasets:
        experiment = cells_experiment(asked, split_names(datasets), split_names(models), seeds, overrides or [])
        folder = output / experiment.name
        histories.append(train_cells(asked, experiment, options))
    _print(certify_confirmed(asked, histories, folder), folder, as_json=options.quiet)


def _print(certified: Certified, folder: Path, *, as_json: bool) -> None:
    (about, *claims), content = certified
    if as_json:
        print(json.dumps(content, indent=2))
        return
    show([about, *(replace(claim, table=None) for claim in claims if claim.verdict != Outcome.HOLDS)])
    say(f"{CERTIFICATE}: {path_text(folder / CERTIFICATE)}")
    say(f"{PAGE}: {path_text(folder / PAGE)}")
